# bash reads this file before a command because of BASH_ENV. It makes bash report the directory in
# which the command ends, and has no other effect. Works with bash 3.2.

# A nested bash, whose parent was in POSIX mode and did not read this file, reports nothing.
if [[ $PPID == "${DISPATCH_SHELL_PARENT-}" ]]; then
    printf -v DISPATCH_SHELL_CWD %q "$DISPATCH_SHELL_CWD"
    # In one group, so that `set -x` in the command does not trace it.
    trap "{ set +xv; builtin pwd -P >| $DISPATCH_SHELL_CWD; } 2>/dev/null || :" EXIT
fi
unset DISPATCH_SHELL_PARENT DISPATCH_SHELL_CWD

# The BASH_ENV of the user, which this file replaced.
if [[ -n ${DISPATCH_SHELL_BASH_ENV-} ]]; then
    BASH_ENV=$DISPATCH_SHELL_BASH_ENV
    unset DISPATCH_SHELL_BASH_ENV
    if [[ -f $BASH_ENV && -r $BASH_ENV ]]; then
        . "$BASH_ENV"
    fi
else
    unset BASH_ENV DISPATCH_SHELL_BASH_ENV
fi
