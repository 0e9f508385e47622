# Completes betty-run's command line in bash. The command itself says what there is: --help=list, --help-keys=list.

_betty_run_list() { "${COMP_WORDS[0]}" "$1" 2>/dev/null; } # OPTION

# Every SECTION.KEY, of the problems in the INI files of the line, too, and what words it is one of, by a tab.
_betty_run_keys() {
    local file sections=
    for file in "${COMP_WORDS[@]}"; do
        [[ $file == *.ini && -r $file ]] && sections+=" $(sed -n 's/^ *\[ *\([A-Za-z0-9_.]*\) *\].*/\1/p' "$file")"
    done
    _betty_run_list --help-keys=list | awk -F '\t' -v sections="$(tr '\n' ' ' <<<"$sections")" '
        function print_once(key) { if (!seen[key]++) print key "\t" $3 }
        BEGIN { count = split(sections, section, " ") }
        !/^\*/ { print_once($1); next }
        {
            key = $1
            group = sub(/^\*\.\*\./, "", key)
            sub(/^\*\./, "", key)
            for (i = 1; i <= count; i++)
                if (section[i] !~ /^(engine|dependencies)$/ && (section[i] ~ /\./) == group)
                    print_once(section[i] "." key)
        }'
}

_betty_run() {
    local line=${COMP_LINE:0:COMP_POINT} word before option name value words
    word=${line##* }
    before=${line%"$word"}
    before=${before%"${before##*[! ]}"}
    option=${before##* }
    if [[ $word == --*=* ]]; then # --name=value is --name value
        option=${word%%=*}=
        word=${word#*=}
    fi
    IFS='|' read -r name value words < <(_betty_run_list --help=list | awk -F '\t' -v OFS='|' -v option="$option" '
        $1 == option && $2 != "" || $1 "=" == option { print $1, $2, $3; exit }')
    COMPREPLY=()
    case $name:$value in
    --set:*)
        if [[ $word == *=* ]]; then
            words=$(_betty_run_keys | awk -F '\t' -v key="${word%%=*}" '$1 == key { print $2 }')
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "${word#*=}")
        else
            mapfile -t COMPREPLY < <(compgen -S = -W "$(_betty_run_keys | cut -f 1)" -- "$word")
            compopt -o nospace 2>/dev/null
        fi
        ;;
    *:DIR | *:RUN*)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        compopt -o filenames 2>/dev/null
        ;;
    *:CSV | *:*.onnx)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
        ;;
    *:*)
        if [[ -n $name ]]; then # else it is a number or a name, of which nothing is known
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        elif [[ $word == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_betty_run_list --help=list | cut -f 1)" -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -f -X '!*.ini' -- "$word"; compgen -d -- "$word")
            compopt -o filenames 2>/dev/null
        fi
        ;;
    esac
}
complete -F _betty_run betty-run
