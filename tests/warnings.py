"""Compiles every source once more, for its warnings only: warnings.py FOLDER JOBS

FOLDER is a configured build with compile_commands.json. What several programs share is compiled once. Prints what the
compiler says; exit 1 if it says that something is wrong.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def commands(folder):
    with open(os.path.join(folder, "compile_commands.json")) as file:
        entries = json.load(file)
    unique = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        at = words.index("-o")
        del words[at : at + 2]
        definitions = tuple(word for word in words if word.startswith("-D"))
        unique[entry["file"], definitions] = (entry["directory"], [*words, "-fsyntax-only"])
    return unique.values()


def compile_one(command):
    directory, words = command
    done = subprocess.run(words, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def main():
    folder, jobs = sys.argv[1], int(sys.argv[2])
    todo = commands(folder)
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(compile_one, todo))
    for _, text in results:
        sys.stdout.write(text)
    wrong = sum(status != 0 for status, _ in results)
    print(f"{len(results)} compiled, {wrong} with errors or warnings")
    return wrong != 0 or not results


if __name__ == "__main__":
    sys.exit(main())
