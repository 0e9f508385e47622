#compdef betty-run
# Completes betty-run's command line in zsh. The command itself says what there is: --help=list, --help-keys=list.

# SECTION.KEY=, of the problems in the INI files of the line, too; behind the = the words that the value is one of.
_betty_run_settings() {
    local line key file section
    local -a fields sections keys
    for file in ${(M)words:#*.ini}; do
        [[ -r $file ]] && sections+=(${(f)"$(sed -n 's/^ *\[ *\([A-Za-z0-9_.]*\) *\].*/\1/p' $file)"})
    done
    for line in ${(f)"$($words[1] --help-keys=list 2>/dev/null)"}; do
        fields=("${(@s:	:)line}")
        case $fields[1] in
        '*.*.'*) keys=(${^${(M)sections:#*.*}}.${fields[1]#'*.*.'}) ;;
        '*.'*) keys=(${^${sections:#(*.*|engine|dependencies)}}.${fields[1]#'*.'}) ;;
        *) keys=($fields[1]) ;;
        esac
        for key in $keys; do
            if compset -P 1 "$key="; then
                compadd -- ${=fields[3]}
                return
            fi
            compadd -S = -- $key
        done
    done
}

_betty_run() {
    local line action
    local -a fields specs
    for line in ${(f)"$($words[1] --help=list 2>/dev/null)"}; do
        fields=("${(@s:	:)line}")
        case $fields[2] in
        DIR | RUN*) action='_files -/' ;;
        CSV | *.onnx) action=_files ;;
        SECTION*) action=_betty_run_settings ;;
        *) action="($fields[3])" ;;
        esac
        [[ $action == '()' ]] && action=' '
        local help=${${fields[4]//\[/(}//\]/)}
        if [[ -n $fields[2] ]]; then
            specs+=("*$fields[1]=[$help]:${fields[2]//:/ }:$action")
        elif [[ -n $fields[3] ]]; then
            specs+=("$fields[1]=-[$help]::form:$action")
        else
            specs+=("$fields[1][$help]")
        fi
    done
    _arguments -s "$specs[@]" '*:INI file:_files -g "*.ini(-.)"'
}

_betty_run "$@"
