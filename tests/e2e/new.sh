#!/bin/bash
# betty-run --new NAME: the files that it writes train as they are, and nothing is overwritten.
. "$(dirname "$0")/common.sh" || exit 1

"$BETTY_RUN" --new first >out 2>err || fail "--new first"
echo "wrote first.c and first.ini; train with: betty-run first.ini" | cmp - out || fail "what is said"
grep -q NAME first.c first.ini && fail "the name is not put in"
cp first.c kept.c
"$BETTY_RUN" first.ini --threads 1 --output trained >out 2>err || fail "what was written does not train"
expect "$(metric trained model.valid.acc) > 0.9"
"$BETTY_RUN" first.ini --threads 1 --check-hypergradient >out 2>err || fail "its hypergradient is not as it should be"
"$BETTY_RUN" first.ini --threads 1 --plan --set model.width=32 >out 2>err || fail "no plan"

mistake "first.c exists already, and --new never overwrites a file" --new first
rm first.c
mistake "first.ini exists already, and --new never overwrites a file" --new first
[ -e first.c ] && fail "half of it is left"
mistake "--new 2nd: a name starts with a letter" --new 2nd
mistake "--new a.b: a name starts with a letter" --new a.b
mistake "--new nowhere/: a name starts with a letter" --new nowhere/
mistake "nowhere/it.c: No such file or directory" --new nowhere/it
mistake "--new NAME cannot be combined with anything else" --new second --json
mistake "--new NAME cannot be combined with anything else" --new second first.ini

mkdir folder
"$BETTY_RUN" --new folder/first >out 2>err || fail "--new folder/first"
cmp kept.c folder/first.c || fail "another text in a folder"
