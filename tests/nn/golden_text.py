"""Prints tests/nn/golden_text.h: what PyTorch and transformers compute for the modules of text, in double precision,
with values made by a formula.

The parameter of a name has at place e, of libbetty's layout, s = sin(1.3 e + 0.1 b), b being the sum of the name's bytes;
scaled: of more than one axis s / sqrt(columns), weights of a normalisation 1 + 0.1 s, others 0.1 s. Numbers that go in
are cos(0.37 e), tokens (7 e + 3) mod vocabulary. The loss is sum(u y) + sum(y^2) / 2 with u = cos(0.61 e). Printed are y;
of each parameter the sum of r g with r = cos(0.9 e + 1), g being its gradient; and the same of the Hessian times the
direction sin(0.5 e + 0.3).
"""
import math

import torch
import transformers
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.set_default_dtype(torch.float64)


def fill(name, shape):
    count = math.prod(shape)
    s = torch.sin(1.3 * torch.arange(count) + 0.1 * sum(name.encode()))
    if len(shape) > 1:
        s = s / math.sqrt(shape[1])
    elif name.endswith("weight"):
        s = 1 + 0.1 * s
    else:
        s = 0.1 * s
    return s.reshape(shape)


def numbers(*shape):
    return torch.cos(0.37 * torch.arange(math.prod(shape))).reshape(shape)


def tokens(vocabulary, *shape):
    return ((7 * torch.arange(math.prod(shape)) + 3) % vocabulary).reshape(shape)


def show(name, values):
    rows = [f"{v:.15g}" for v in values.tolist()]
    print(f"static const double golden_{name}[{len(rows)}] = {{")
    print("    " + ", ".join(rows) + ",")
    print("};")


def golden(title, names, forward):
    """names: {libbetty's name: shape}; forward: a function of these parameters."""
    p = {name: fill(name, shape).requires_grad_() for name, shape in names.items()}
    y = forward(p)
    u = torch.cos(0.61 * torch.arange(y.numel())).reshape(y.shape)
    loss = (u * y).sum() + (y * y).sum() / 2
    g = torch.autograd.grad(loss, list(p.values()), create_graph=True)
    along = sum((a * torch.sin(0.5 * torch.arange(a.numel()) + 0.3).reshape(a.shape)).sum() for a in g)
    h = torch.autograd.grad(along, list(p.values()))
    sums = [(torch.cos(0.9 * torch.arange(a.numel()) + 1).reshape(a.shape) * a).sum() for a in list(g) + list(h)]
    show(title, torch.cat([y.detach().reshape(-1), torch.stack(sums).detach()]))


def layer_names(width, inner, cross=False, before=""):
    names = {}
    for part in ["self_attn"] + ["multihead_attn"] * cross:
        names |= {f"{part}.in_proj_weight": (3 * width, width), f"{part}.in_proj_bias": (3 * width,),
                  f"{part}.out_proj.weight": (width, width), f"{part}.out_proj.bias": (width,)}
    names |= {"linear1.weight": (inner, width), "linear1.bias": (inner,), "linear2.weight": (width, inner),
              "linear2.bias": (width,)}
    for norm in ["norm1", "norm2"] + ["norm3"] * cross:
        names |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    return {before + name: shape for name, shape in names.items()}


def encoder(title, pre, activation):
    net = nn.TransformerEncoderLayer(6, 2, 10, 0, activation, batch_first=True, norm_first=pre)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    golden(title, layer_names(6, 10), lambda p: functional_call(net, p, (numbers(2, 5, 6),),
                                                                {"src_key_padding_mask": mask}))


def decoder():
    net = nn.TransformerDecoderLayer(6, 2, 10, 0, "relu", batch_first=True)
    causal = torch.ones(5, 5).triu(1).bool()
    golden("decoder_layer", layer_names(6, 10, True),
           lambda p: functional_call(net, p, (numbers(2, 5, 6), numbers(2, 4, 6)), {"tgt_mask": causal}))


def gpt2():
    width, layers = 6, 2
    net = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=width, n_layer=layers, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        attn_implementation="eager"))
    names = {"wte.weight": (11, width), "wpe.weight": (8, width)}
    for i in range(layers):
        names |= layer_names(width, 4 * width, before=f"layers.{i}.")
    names |= {"norm.weight": (width,), "norm.bias": (width,)}
    parts = {"ln_1": "norm1", "ln_2": "norm2", "attn.c_proj": "self_attn.out_proj", "mlp.c_fc": "linear1",
             "mlp.c_proj": "linear2"}

    def theirs(p):
        to = {"transformer.wte.weight": p["wte.weight"], "transformer.wpe.weight": p["wpe.weight"],
              "lm_head.weight": p["wte.weight"], "transformer.ln_f.weight": p["norm.weight"],
              "transformer.ln_f.bias": p["norm.bias"]}
        for i in range(layers):
            h, l = f"transformer.h.{i}.", f"layers.{i}."
            to[h + "attn.c_attn.weight"] = p[l + "self_attn.in_proj_weight"].T
            to[h + "attn.c_attn.bias"] = p[l + "self_attn.in_proj_bias"]
            for a, b in parts.items():
                w = p[f"{l}{b}.weight"]
                to[f"{h}{a}.weight"] = w.T if w.dim() == 2 else w
                to[f"{h}{a}.bias"] = p[f"{l}{b}.bias"]
        return to

    golden("gpt2", names, lambda p: functional_call(net, theirs(p), (tokens(11, 2, 5),)).logits)


def bert():
    width = 6
    net = transformers.BertModel(transformers.BertConfig(
        vocab_size=11, hidden_size=width, num_hidden_layers=1, num_attention_heads=2, intermediate_size=10,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, max_position_embeddings=8, type_vocab_size=2,
        attn_implementation="eager"), add_pooling_layer=False)
    names = {"wte.weight": (11, width), "wpe.weight": (8, width), "token_type_embeddings.weight": (2, width),
             "embedding_norm.weight": (width,), "embedding_norm.bias": (width,)}
    names |= layer_names(width, 10, before="layers.0.")

    def theirs(p):
        e, h, l = "embeddings.", "encoder.layer.0.", "layers.0."
        to = {e + "word_embeddings.weight": p["wte.weight"], e + "position_embeddings.weight": p["wpe.weight"],
              e + "token_type_embeddings.weight": p["token_type_embeddings.weight"]}
        parts = {"LayerNorm": ("embedding_norm", e), "attention.output.dense": (l + "self_attn.out_proj", h),
                 "attention.output.LayerNorm": (l + "norm1", h), "intermediate.dense": (l + "linear1", h),
                 "output.dense": (l + "linear2", h), "output.LayerNorm": (l + "norm2", h)}
        for kind in ["weight", "bias"]:
            for a, (b, before) in parts.items():
                to[f"{before}{a}.{kind}"] = p[f"{b}.{kind}"]
            for i, a in enumerate(["query", "key", "value"]):
                to[f"{h}attention.self.{a}.{kind}"] = p[f"{l}self_attn.in_proj_{kind}"][i * width:(i + 1) * width]
        return to

    types = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    mask = torch.tensor([[1] * 5, [1] * 3 + [0] * 2])
    golden("bert", names, lambda p: functional_call(net, theirs(p), (tokens(11, 2, 5),), {
        "token_type_ids": types, "attention_mask": mask}).last_hidden_state)


def recurrent(title, net, lengths=None):
    names = {name: tuple(value.shape) for name, value in net.named_parameters()}

    def forward(p):
        x = numbers(3, 8, 4)
        if lengths is None:
            return functional_call(net, p, (x,))[0]
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(functional_call(net, p, (packed,))[0], batch_first=True)[0]

    golden(title, names, forward)


def cell(title, net):
    names = {name: tuple(value.shape) for name, value in net.named_parameters()}

    def forward(p):
        state = numbers(2, 10) if title == "lstm_cell" else numbers(2, 5)
        given = (state[:, :5], state[:, 5:]) if title == "lstm_cell" else state
        after = functional_call(net, p, (numbers(2, 4), given))
        return torch.cat(after, 1) if title == "lstm_cell" else after

    golden(title, names, forward)


context = sdpa_kernel(SDPBackend.MATH)  # the others have no second derivative
context.__enter__()
print(f"/* tests/nn/golden_text.h: printed by golden_text.py with PyTorch {torch.__version__} and transformers "
      f"{transformers.__version__}, in double precision. */")
encoder("encoder_layer", False, "relu")
encoder("encoder_layer_pre", True, "gelu")
decoder()
gpt2()
bert()
recurrent("lstm", nn.LSTM(4, 5, batch_first=True))
recurrent("gru", nn.GRU(4, 5, batch_first=True))
recurrent("lstm_deep", nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True), [8, 5, 1])
recurrent("gru_deep", nn.GRU(4, 3, 2, bias=False, batch_first=True, bidirectional=True), [8, 5, 1])
cell("lstm_cell", nn.LSTMCell(4, 5))
cell("gru_cell", nn.GRUCell(4, 5))
