# Loads the scripts of tools/completion into the real shells: bash through bash-completion, fish, and zsh.
# Debian: fish zsh bash-completion
set -eu
scripts=$BT_SOURCE_DIR/tools/completion
mkdir -p bin share/bash-completion/completions site-functions
ln -s "$BETTY_RUN" bin/betty-run
PATH=$PWD/bin:$PATH
cp "$scripts/betty-run.bash" share/bash-completion/completions/betty-run
cp "$scripts/betty-run.zsh" site-functions/_betty-run
printf '[engine]\n[upper]\n[lower]\n[lower.slow]\n' >a.ini
export HOME=$PWD

bash --norc -c 'XDG_DATA_DIRS=$PWD/share . /usr/share/bash-completion/bash_completion
    XDG_DATA_HOME=$PWD/share; __load_completion betty-run; complete -p betty-run' 2>/dev/null | grep -q _betty_run

in_line() { LC_ALL=C sort -u | paste -sd ' '; }
fish_offers() { fish --no-config -c "source $scripts/betty-run.fish; complete -C '$1'" | cut -f 1 | in_line; }
expect() { # SHELL LINE OFFERED
    offered=$("$1_offers" "$2")
    [ "$offered" = "$3" ] || { echo "$1: $2: found \"$offered\", expected \"$3\""; exit 1; }
}
expect fish 'betty-run --print-' '--print-config --print-equation'
expect fish 'betty-run --device ' 'auto cpu cuda'
expect fish 'betty-run --help=' '--help=list --help=man --help=text'
expect fish 'betty-run --set engine.executor=p' 'engine.executor=processes'
types=$("$BETTY_RUN" --help-keys=list | awk -F '\t' '$1 == "*.type" { print $3 }')
# shellcheck disable=SC2086 # words
expect fish 'betty-run a.ini --set upper.ty' "$(printf 'upper.type=%s\n' '' $types | in_line)"
expect fish 'betty-run a.ini --set lower.slow.' \
    'lower.slow.frozen= lower.slow.frozen=false lower.slow.frozen=true lower.slow.params='
expect fish 'betty-run a' 'a.ini'

# zsh only completes in a terminal: this opens one, and presses each key in it.
cat >offers.zsh <<'END'
zmodload zsh/zpty
zpty terminal zsh -f -i
zpty -w terminal "PROMPT=; fpath=($PWD/site-functions \$fpath); autoload -U compinit; compinit -u -D
LISTMAX=1000; setopt no_always_last_prompt; print READY"
zpty -r terminal line '*READY*'; zpty -r terminal line '*READY*'
zpty -n -w terminal "$1"
sleep 1
zpty -n -w terminal $'\t'
sleep 4
zpty -n -w terminal $'\x03'
sleep 0.3
while zpty -r -t terminal line; do print -r -- "$line"; done
zpty -d terminal
END
zsh_offers() { zsh -f offers.zsh "$1" | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' | grep -oE -- "$2" | in_line; }
zsh_expect() { # LINE PATTERN OFFERED
    offered=$(zsh_offers "$1" "$2")
    [ "$offered" = "$3" ] || { echo "zsh: $1: found \"$offered\", expected \"$3\""; exit 1; }
}
zsh_expect 'betty-run --print-' '--print-(config|equation)' '--print-config --print-equation'
zsh_expect 'betty-run --device ' '\b(auto|cpu|cuda)\b' 'auto cpu cuda'
zsh_expect 'betty-run --set engine.executor=p' 'engine.executor=processes' 'engine.executor=processes'
zsh_expect 'betty-run a.ini --set upper.ty' 'upper.type=' 'upper.type='
echo 'bash, fish, zsh'
