"""Prints tests/nn/golden_published.h and writes tests/nn/published/{gpt2,bert}.safetensors: small checkpoints of random
numbers as transformers saves them, and what its models make of them in double precision.

golden_published.py FOLDER: of the checkpoints. Tokens are (7 e + 3) mod vocabulary; types and the mask are below.
"""
import os
import sys

import safetensors.torch
import torch
import transformers


def fill(net, seed):
    draw = torch.Generator().manual_seed(seed)
    for name, value in net.named_parameters():
        noise = torch.randn(value.shape, generator=draw)
        with torch.no_grad():
            value.copy_(0.25 * noise if value.dim() > 1 else 0.1 * noise + ("ln_" in name or "Norm" in name)
                        * name.endswith("weight"))
    return net


def save(net, folder, name):
    net.save_pretrained(folder)
    os.replace(os.path.join(folder, "model.safetensors"), os.path.join(folder, f"{name}.safetensors"))
    for rest in ("config.json", "generation_config.json"):
        if os.path.exists(os.path.join(folder, rest)):
            os.remove(os.path.join(folder, rest))
    return net.double().eval()


def show(name, values):
    rows = [f"{v:.12g}" for v in values.detach().reshape(-1).tolist()]
    print(f"static const double golden_{name}[{len(rows)}] = {{")
    print("    " + ", ".join(rows) + ",")
    print("};")


def tokens(vocabulary, rows, columns):
    return ((7 * torch.arange(rows * columns) + 3) % vocabulary).reshape(rows, columns)


def main():
    folder = sys.argv[1]
    gpt2 = fill(transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=64, n_positions=12, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager")), 1)
    bert = fill(transformers.BertModel(transformers.BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=12, type_vocab_size=2, attn_implementation="eager")), 2)
    gpt2, bert = save(gpt2, folder, "gpt2"), save(bert, folder, "bert")
    print(f"/* tests/nn/golden_published.h: printed by golden_published.py with PyTorch {torch.__version__}, transformers "
          f"{transformers.__version__}\n * and safetensors {safetensors.__version__}. */")
    show("gpt2", gpt2(tokens(64, 2, 5)).logits)
    types = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    mask = torch.tensor([[1] * 5, [1] * 3 + [0] * 2])
    show("bert", bert(tokens(64, 2, 5), token_type_ids=types, attention_mask=mask).last_hidden_state)


main()
