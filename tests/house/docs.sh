#!/bin/bash
# Every command block of the documentation (```sh) is run, in a copy of the folders it names; code blocks of
# writing-a-problem.md and extending.md are found in their examples. Comments before a block say what to do with it:
#   <!-- test: --set engine.train_iters=50 -->   run, with these options added to each betty-run that trains
#   <!-- not run: why -->                        leave it out
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir build bin bench
for folder in examples problems data docs bench/problems; do
    if [ -d "$BT_SOURCE_DIR/$folder" ]; then cp -r "$BT_SOURCE_DIR/$folder" "$(dirname "$folder")"; fi
done

# betty-run as the documentation calls it, with the options from the block's comment.
cat >bin/betty-run <<TEXT
#!/bin/bash
read -ra extra <<<"\${BLOCK_OPTIONS:-}"
case " \$* " in *.ini*) ;; *) extra=() ;; esac
exec "$BETTY_RUN" "\$@" "\${extra[@]}"
TEXT
cat >dev <<'TEXT'
#!/bin/bash
[ "$1" = run ] || { echo "only ./dev run is tried here, not: ./dev $*"; exit 1; }
exec betty-run "${@:2}"
TEXT
chmod +x bin/betty-run dev
cp bin/betty-run build/betty-run
export PATH=$work/bin:$PATH

bad=0 blocks=0
for page in "$BT_SOURCE_DIR"/README.md "$BT_SOURCE_DIR"/docs/*.md; do
    rm -rf blocks
    mkdir blocks
    awk '
        /^<!-- (test|not run): .* -->$/ { note = $0; next }
        /^```sh$/ { n++; file = sprintf("blocks/%03d", n); print note > (file ".note"); printf "" > (file ".sh"); next }
        /^```/ { file = ""; note = ""; next }
        file != "" { print > (file ".sh") }
        file == "" && NF { note = "" }' "$page"
    for block in blocks/*.sh; do
        [ -f "$block" ] || continue
        note=$(cat "${block%.sh}.note")
        case $note in "<!-- not run:"*) continue ;; esac
        BLOCK_OPTIONS=$(sed -n 's/^<!-- test: \(.*\) -->$/\1/p' <<<"$note")
        export BLOCK_OPTIONS
        blocks=$((blocks + 1))
        if ! bash -euo pipefail "$block" >output 2>&1; then
            printf '%s: this block fails:\n' "${page#"$BT_SOURCE_DIR"/}"
            cat "$block"
            tail -n 20 output
            bad=1
        fi
    done
done
echo "$blocks blocks run"
[ "$blocks" -gt 0 ] || bad=1

# Code of an example shown on a page must be in that example, line by line.
quotes() { # PAGE EXAMPLE...
    local page=$1 line files=() example
    shift
    for example in "$@"; do files+=("$BT_SOURCE_DIR/examples/$example"); done
    awk '/^```/ { code = ($0 == "```c" || $0 == "```ini"); next } code && NF' "$BT_SOURCE_DIR/docs/$page" | while IFS= read -r line; do
        if ! grep -qxF -- "$line" "${files[@]}"; then
            printf 'docs/%s shows a line that its examples lack: %s\n' "$page" "$line"
            exit 1
        fi
    done
}
quotes writing-a-problem.md tutorial.c tutorial.ini || bad=1
quotes programs.md step_by_step.c environment.c || bad=1
quotes extending.md custom_op.c softplus.cu game.c curriculum.c || bad=1
quotes text.md ../tests/nn/test_text.c || bad=1

# Links between pages must have a target.
for page in "$BT_SOURCE_DIR"/*.md "$BT_SOURCE_DIR"/docs/*.md; do
    while IFS= read -r link; do
        if [ ! -e "$(dirname "$page")/$link" ]; then
            echo "${page#"$BT_SOURCE_DIR"/}: no such file: $link"
            bad=1
        fi
    done < <(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v '^https:')
done
exit $bad
