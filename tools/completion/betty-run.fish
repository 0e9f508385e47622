# Completes betty-run's command line in fish. The command itself says what there is: --help=list, --help-keys=list.

function __betty_run_sections
    for file in (commandline -opc)
        if string match -q '*.ini' -- $file; and test -r $file
            string replace -rf '^ *\[ *([A-Za-z0-9_.]+) *\].*' '$1' <$file
        end
    end
end

# Every SECTION.KEY=, of the problems in the INI files of the line, too, or SECTION.KEY=WORD.
function __betty_run_settings
    set -l sections (__betty_run_sections)
    betty-run --help-keys=list 2>/dev/null | while read -d \t -l key expected words help
        set -l keys
        switch $key
            case '*.*.*'
                set keys (string match -r '.*\..*' -- $sections).(string sub -s 5 -- $key)
            case '\*.*'
                set keys (string match -rv '\.|^engine$|^dependencies$' -- $sections).(string sub -s 3 -- $key)
            case '*'
                set keys $key
        end
        for one in $keys
            printf '%s=\t%s\n' $one $help
            for word in (string split -n ' ' -- $words)
                printf '%s=%s\n' $one $word
            end
        end
    end
end

function __betty_run_options
    betty-run --help=list 2>/dev/null | while read -d \t -l name value words help
        set -l option (string sub -s 3 -- $name)
        switch $value
            case DIR 'RUN*'
                complete -c betty-run -l $option -d $help -x -a '(__fish_complete_directories)'
            case CSV '*.onnx'
                complete -c betty-run -l $option -d $help -r
            case 'SECTION.KEY=VALUE'
                complete -c betty-run -l $option -d $help -x -a '(__betty_run_settings)'
            case ''
                if test -n "$words"
                    complete -c betty-run -l $option -d $help -f
                    for word in (string split -n ' ' -- $words)
                        complete -c betty-run -f -a "--$option=$word" -n "string match -q -- '--$option=*' (commandline -ct)"
                    end
                else
                    complete -c betty-run -l $option -d $help -f
                end
            case '*'
                complete -c betty-run -l $option -d $help -x -a $words
        end
    end
end

complete -c betty-run -f -a '(__fish_complete_suffix .ini)' -n 'not string match -q -- "-*" (commandline -ct)'
__betty_run_options
