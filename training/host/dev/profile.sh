# Settings of a user's login shell on a host: the programs' Python with TensorFlow, as in JupyterLab's terminal, and the
# limits of programs (trainyard-host.service). training/baking installs this file as /etc/profile.d/trainyard.sh.
PATH="/opt/trainyard/venv/bin:/opt/trainyard/jupyter/bin:$PATH"
if [ -d "$HOME/.venv/bin" ]; then
    PATH="$HOME/.venv/bin:$PATH"
fi
USER=$(id -un)
export PATH USER LOGNAME="$USER" TF_CPP_MIN_LOG_LEVEL=1
ulimit -Sn 65536 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"
if [ -n "$BASH_VERSION" ] && [ -n "$PS1" ]; then
    PS1='\u@\h:\w\$ '
fi
