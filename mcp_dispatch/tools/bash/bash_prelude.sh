# Read by bash before a command, by way of BASH_ENV: reports the directory the command ends in,
# and leaves no other trace. Works with bash 3.2.

# A bash further down, which did not read this because its parent was in POSIX mode, reports nothing.
if [[ $PPID == "${DISPATCH_SHELL_PARENT-}" ]]; then
    printf -v DISPATCH_SHELL_CWD %q "$DISPATCH_SHELL_CWD"
    # In one group, so that nothing of it is shown where the command has switched on `set -x`.
    trap "{ set +xv; builtin pwd -P >| $DISPATCH_SHELL_CWD; } 2>/dev/null || :" EXIT
fi
unset DISPATCH_SHELL_PARENT DISPATCH_SHELL_CWD

# The user's own BASH_ENV, whose place this file took.
if [[ -n ${DISPATCH_SHELL_BASH_ENV-} ]]; then
    BASH_ENV=$DISPATCH_SHELL_BASH_ENV
    unset DISPATCH_SHELL_BASH_ENV
    if [[ -f $BASH_ENV && -r $BASH_ENV ]]; then
        . "$BASH_ENV"
    fi
else
    unset BASH_ENV DISPATCH_SHELL_BASH_ENV
fi
