#!/usr/bin/env python3
"""Planned bytes of the language model of docs/memory.md with 1 to 8 layers, with and without recomputation. Prints a
table and draws docs/img/layers.svg, where a band shows the saving by recomputation reported for needle: 57 to 62 %.

    python3 bench/language_layers.py

Needs ./dev build. For times: ./dev bench memory layers.
"""
import json
import os
import subprocess

import plot

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYERS = (1, 2, 4, 8)
AGAIN, PIECES = "language.checkpointing=sqrt", "language.chunks=16"
ROWS = {"as it is": [], "layers again": [AGAIN], "in 16 pieces": [PIECES], "both": [PIECES, AGAIN]}
NEEDLE = (0.57, 0.62)  # of memory


def planned(layers, settings):
    """Bytes of the whole run."""
    settings = ["engine.levels=language", "language.baseline=true", "language.batch_size=256", "language.prefetch=false",
                f"language.layers={layers}", *settings]  # fmt: skip
    command = [os.path.join(ROOT, "build", "betty-run"), os.path.join(ROOT, "examples", "language.ini"), "--plan", "--json",
               "--threads", "1", *(word for setting in settings for word in ("--set", setting))]  # fmt: skip
    bytes = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["planned_bytes"]
    return bytes["arena"] + bytes["persistent"]


def draw(found):
    zero = [0] * len(LAYERS)
    curves = [(name, LAYERS, [bytes / 1e6 for bytes in row], zero) for name, row in found.items()]
    least, most = ((1 - part) for part in reversed(NEEDLE))
    saved = [(bytes / 1e6 * (most + least) / 2, bytes / 1e6 * (most - least) / 2) for bytes in found["as it is"]]
    curves.append(("57–62 % less", LAYERS, *zip(*saved)))
    path = os.path.join(ROOT, "docs", "img", "layers.svg")
    with open(path, "w") as file:
        file.write(plot.svg("A language model's memory", "layers", "MB planned", curves, (0, 450), width=420, right=110))


def main():
    found = {name: [planned(layers, settings) for layers in LAYERS] for name, settings in ROWS.items()}
    print("| layers |" + "".join(f" {layers} |" for layers in LAYERS) + "\n|" + "---|" * (len(LAYERS) + 1))
    for name, row in found.items():
        print(f"| {name} | " + " | ".join(f"{bytes:,} B" for bytes in row) + " |")
    draw(found)


if __name__ == "__main__":
    main()
