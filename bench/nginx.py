"""nginx as a plain reverse proxy, from a configuration and a folder of its own."""

import os
import shutil
import subprocess
from pathlib import Path

from bench.processes import Program

_CONFIG = """\
{user}
daemon off;
master_process on;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000;
    client_max_body_size 0;
    upstream chat {{
        server 127.0.0.1:{upstream};
        keepalive 256;
        keepalive_requests 1000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=2048;
        location / {{
            proxy_pass http://chat;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_request_buffering off;
        }}
    }}
}}
"""


def find(*, install: bool) -> str | None:
    """The program, installed first if that is wanted and possible."""
    found = _which()
    if found is None and install and os.geteuid() == 0 and shutil.which("apt-get"):
        print("bench: nginx is not here; installing nginx-light (--no-install leaves it out)", flush=True)
        # In this run level the package does not start a server of its own.
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", "nginx-light"]):
            try:
                subprocess.run(["apt-get", "-q", *command], env=env, capture_output=True, timeout=180)
            except (OSError, subprocess.TimeoutExpired) as error:
                print(f"bench: that failed: {error}")
                break
        found = _which()
    return found


def start(program: str, folder: Path, port: int, upstream: int) -> Program:
    folder.mkdir()
    config = folder / "nginx.conf"
    # Started by root it would give up its rights, and with them its own folder.
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(_CONFIG.format(user=user, folder=folder, port=port, upstream=upstream))
    command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(config)]
    return Program("nginx", command, port, log=folder / "output.log")


def _which() -> str | None:
    return shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
