"""Trains the tokenisers of this folder by PyPI's `tokenizers` and writes what it makes of some samples: golden.json.
Run in this folder, with the texts to train on:
    cat ../../../data/austen/*.gz >/tmp/all.gz && python3 make.py /tmp/all.gz"""

import gzip
import json
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OTHER = """Zażółć gęślą jaźń; l'été à la façade, naïve café — Ångström, İstanbul, ΑΒΓ αβγ Σίσυφος.
今日は良い天気です。我爱自然语言处理。한국어 문장입니다. Привет, мир! مرحبا بالعالم १२३ שלום עולם
don't we'll I'm they've he'd you're it's 3.14159 and 1,000,000 in 2026; e-mail: a_b@c.example #1 50% <tag>
👩‍👩‍👧 🎉🎉 ♥ ½ Ⅳ ² ﬁne ＦＵＬＬ\tTabs  and   spaces
"""

SAMPLES = [
    "",
    " ",
    "\n",
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "  Two blanks before, three inside:   and some behind   ",
    "Emma Woodhouse, handsome, clever, and rich, with a comfortable home",
    "don't we'll I'm they've he'd you're it's DON'T 'tis 'quoted' ''",
    "0 12 345 6,789.01 1st 2nd ½ Ⅳ ² १२३ ٣٤",
    "line one\nline two\r\n\r\n\tindented\n\n\n",
    "naïve café Ångström Zażółć gęślą jaźń İI ıi ẞß ΣΊΣΥΦΟΣ ǅ",
    "e\u0301 a\u0308\u0323 \u1e69 \u0344 \u1100\u1161\u11a8 \ufb01ne \u212b \uff26\uff35\uff2c\uff2c \u00bd",
    "今日は良い天気です。我爱自然语言处理。𠮷野家",
    "한국어 문장입니다. Привет, мир! مرحبا بالعالم שלום עולם नमस्ते สวัสดี",
    "👩‍👩‍👧 🎉🎉 ♥️ 🇨🇭 \U0001f44d\U0001f3fd x\u200dy \u24b6\u24d0 \U0001f170",
    "zero\u0000one \u0001\u0008\u007f\u0085\u009f \ufeffbom \u00adsoft \u200bzero width \ufffd \ue000 \U000e0001 \u0378",
    "\u00a0no-break\u2003em\u2028line\u2029paragraph\u3000wide\u1680ogham\u202f\u205f end",
    "x" * 150 + " " + "ab" * 300,
    "pneumonoultramicroscopicsilicovolcanoconiosis Donaudampfschifffahrtsgesellschaft",
    "<|endoftext|> a<|endoftext|>b [CLS] x [SEP][MASK] [PAD] [UNK] <unk> <s> </s> <mask>",
    "$5.00 + 3€ = £? ^`~| \\ {a}[b](c) <d> @#%&*_-/ §¶ “quotes” ‘single’ … – — «»",
    "under_score __init__ CamelCase snake_case mixed123abc 4you a.b.c http://example.org/?q=1&r=2",
    "the Emma emma Emmanuel EMMA  Emma  the Knightley,Knightley Knightleys",
    "▁▁ under ▁lower one eighth ▁",
    "  \t \n x",
    "a  b   c    d     e",
]


def trained(model, trainer, text, normalizer=None, pre_tokenizer=None, decoder=None):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if pre_tokenizer:
        t.pre_tokenizer = pre_tokenizer
    if decoder:
        t.decoder = decoder
    t.train_from_iterator(text, trainer)
    return t


def gpt2(text):
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t = trained(models.BPE(), trainer, text, None, pre_tokenizers.ByteLevel(add_prefix_space=False),
                decoders.ByteLevel())
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def roberta(text):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    splitter = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel()])
    t = trained(models.BPE(), trainer, text, normalizers.NFC(), splitter, decoders.ByteLevel())
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def bert(text, lower):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    t = trained(models.WordPiece(unk_token="[UNK]"), trainer, text,
                normalizers.BertNormalizer(lowercase=lower, strip_accents=None if lower else False),
                pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(cleanup=lower))
    cls, sep = t.token_to_id("[CLS]"), t.token_to_id("[SEP]")
    if lower:
        t.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1",
                                                         [("[CLS]", cls), ("[SEP]", sep)])
        t.enable_padding(length=16)
    else:
        t.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return t


def suffix(text):
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>",
                                  show_progress=False)
    return trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainer, text,
                   normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]), pre_tokenizers.Whitespace(),
                   decoders.BPEDecoder())


def prefix(text):
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>"], continuing_subword_prefix="##",
                                  show_progress=False)
    splitter = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"),
                                        pre_tokenizers.Digits()])
    return trained(models.BPE(unk_token="<unk>", fuse_unk=True, continuing_subword_prefix="##"), trainer, text[:400],
                   normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()]), splitter,
                   decoders.WordPiece(cleanup=False))


def llama(text):
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    t = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainer, text[:300],
                normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                pre_tokenizers.Split("▁", "merged_with_next"),
                decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)]))
    data = json.loads(t.to_str()) # byte tokens are not special tokens
    data["added_tokens"] = data["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    return t


def metaspace(text):
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "</s>"], show_progress=False)
    t = trained(models.BPE(unk_token="<unk>"), trainer, text[:300], normalizers.NFKD(),
                pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first"))
    t.add_tokens([AddedToken("Emma", single_word=True), AddedToken("Emm"),
                  AddedToken("knightley", lstrip=True, rstrip=True)])
    return t


def words(text):
    trainer = trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False)
    t = trained(models.WordLevel(unk_token="<unk>"), trainer, text, None, pre_tokenizers.Whitespace())
    t.add_tokens([AddedToken("Emma", single_word=True, rstrip=True), AddedToken("the Emma", normalized=False),
                  AddedToken("the", normalized=False)])
    return t


def main():
    text = gzip.open(sys.argv[1], "rt", encoding="utf-8").read().splitlines()[:3000] + OTHER.splitlines() * 20
    made = {"gpt2": gpt2(text), "roberta": roberta(text), "bert": bert(text, True), "cased": bert(text, False),
            "suffix": suffix(text), "prefix": prefix(text), "llama": llama(text), "metaspace": metaspace(text),
            "words": words(text)}
    golden = {"made by": "tokenizers " + tokenizers.__version__, "samples": SAMPLES, "tokenizers": {}}
    for name, t in made.items():
        t.save(name + ".json", pretty=False)
        t = Tokenizer.from_file(name + ".json")
        t.no_padding()
        t.no_truncation()
        ids = [t.encode(s, add_special_tokens=False).ids for s in SAMPLES]
        golden["tokenizers"][name] = {
            "size": t.get_vocab_size(),
            "ids": ids,
            "special": [t.encode(s).ids for s in SAMPLES],
            "plain": [t.decode(i) for i in ids],
            "whole": [t.decode(t.encode(s).ids, skip_special_tokens=False) for s in SAMPLES],
        }
    made["gpt2"].model.save(".")
    with open("golden.json", "w") as file:
        json.dump(golden, file)
        file.write("\n")


main()
