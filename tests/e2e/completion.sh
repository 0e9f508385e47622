#!/bin/bash
# Bash completion for betty-run's command line, compared with the tables of options and keys.
set -eu
source "$(dirname "$0")/common.sh"
# shellcheck source=/dev/null
source "$BT_SOURCE_DIR/tools/completion/betty-run.bash"

mkdir bin data.d
ln -s "$BETTY_RUN" bin/betty-run
PATH=$PWD/bin:$PATH
touch other.txt
printf '[engine]\nproblems = x.c\n[upper]\n[lower]\ntype = cg\n[lower.slow]\nparams = *\n' >a.ini

completed() { # LINE: the completions at its end, sorted, separated by blanks
    COMP_LINE=$1 COMP_POINT=${#1}
    read -ra COMP_WORDS <<<"$1"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _betty_run
    printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd ' '
}

check() { # LINE OFFERED
    [ "$(completed "$1")" = "$2" ] || fail "completed: $1: found \"$(completed "$1")\", expected \"$2\""
}
check 'betty-run --pl' '--plan'
check 'betty-run a.ini --print-' '--print-config --print-equation'
check 'betty-run ' 'a.ini bin data.d'
check 'betty-run --device ' 'auto cpu cuda'
check 'betty-run --device=cu' 'cuda'
check 'betty-run --help=' 'list man text'
check 'betty-run --tokens ' ''
check 'betty-run --resume d' 'data.d'
check 'betty-run --evaluate d --predictions o' 'other.txt'
check 'betty-run --plan a' 'a.ini'
check 'betty-run --set engine.early_stopping_m' 'engine.early_stopping_metric= engine.early_stopping_mode='
check 'betty-run --set engine.executor=' 'auto lockstep processes'
check 'betty-run --set engine.executor=p' 'processes'
check 'betty-run --set upper.type' '' # there is no file on the line
check 'betty-run a.ini --set upper.ty' 'upper.type='
check 'betty-run a.ini --set lower.slow.' 'lower.slow.frozen= lower.slow.params='
check 'betty-run a.ini --set lower.slow.frozen=' 'false true'
check 'betty-run a.ini --set lower.type=s' 'sama'
