"""SSM documents that Amazon provides, as far as the local cloud supports them."""

from __future__ import annotations

from typing import Any

from localcloud.services.ssm.document import PORT, SHELL

RUN_SHELL_SCRIPT = {
    "schemaVersion": "2.2",
    "description": "Run a shell script or specify the commands to run.",
    "parameters": {
        "commands": {
            "type": "StringList",
            "description": "(Required) Specify a shell script or a command to run.",
        },
        "workingDirectory": {"type": "String", "default": ""},
        "executionTimeout": {
            "type": "String",
            "default": "3600",
            "allowedPattern": "([1-9][0-9]{0,4})|(1[0-6][0-9]{4})|(17[0-1][0-9]{3})|(172[0-7][0-9]{2})|(172800)",
        },
    },
    "mainSteps": [
        {
            "action": SHELL,
            "name": SHELL,
            "inputs": {
                "timeoutSeconds": "{{ executionTimeout }}",
                "workingDirectory": "{{ workingDirectory }}",
                "runCommand": ["{{ commands }}"],
            },
        }
    ],
}

PORT_NUMBER = "^([1-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
LOCAL_PORT = PORT_NUMBER.replace("^(", "^(0|")
_COMMAND = {"command": {"type": "String", "description": "(Required) What to run."}}
_ON_LINUX = {"linux": {"commands": "{{ command }}", "runAsElevated": False}}
SESSION_DOCUMENTS: dict[str, dict[str, Any]] = {
    "AWS-StartPortForwardingSession": {
        "schemaVersion": "1.0",
        "description": "Forward a port of the instance.",
        "sessionType": PORT,
        "parameters": {
            "portNumber": {"type": "String", "allowedPattern": PORT_NUMBER, "default": "80"},
            "localPortNumber": {"type": "String", "allowedPattern": LOCAL_PORT, "default": "0"},
        },
        "properties": {
            "portNumber": "{{ portNumber }}",
            "type": "LocalPortForwarding",
            "localPortNumber": "{{ localPortNumber }}",
        },
    },
    "AWS-StartSSHSession": {
        "schemaVersion": "1.0",
        "description": "One connection to a port of the instance, as ssh wants it.",
        "sessionType": PORT,
        "parameters": {"portNumber": {"type": "String", "allowedPattern": PORT_NUMBER, "default": "22"}},
        "properties": {"portNumber": "{{ portNumber }}"},
    },
    "AWS-StartInteractiveCommand": {
        "schemaVersion": "1.0",
        "description": "A command in a terminal of the instance.",
        "sessionType": "InteractiveCommands",
        "parameters": _COMMAND,
        "properties": _ON_LINUX,
    },
    "AWS-StartNonInteractiveCommand": {
        "schemaVersion": "1.0",
        "description": "A command on the instance.",
        "sessionType": "NonInteractiveCommands",
        "parameters": _COMMAND,
        "properties": _ON_LINUX,
    },
}
"""Amazon's session documents by name. The texts are our own."""
