"""Runs Python scripts in processes that have imported their modules already: bumble's alone take half a second.

  PYTHON preload.py ADDRESS MODULE ...

Listens on the abstract socket ADDRESS, to which `Tests/TestKit/Preloaded.swift` connects: once for each run of a script.
The request is one packet, a JSON object with the script's three standard streams: `arguments`, of which the first is its
path, `environment` and `folder`. The answers are the number of its process, and its status once it has ended: 128 and the
signal's number where a signal ended it. Who closes the connection kills it. Ends with the process that started it.
"""
import ctypes
import gc
import glob
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

# Modules that the tests' scripts import, by the environments of Tools/install; each has the package of the first.
MODULES = {
    "python": [
        "bumble.controller", "bumble.device", "bumble.gatt", "bumble.host", "bumble.link", "bumble.pairing",
        "bumble.profiles.battery_service", "bumble.profiles.device_information_service",
        "bumble.profiles.gatt_service", "bumble.profiles.heart_rate_service", "bumble.transport.hci_socket",
        "bumble.transport.tcp_client", "bumble.transport.tcp_server"],
    "readers": ["numpy", "pandas", "prometheus_client.parser", "pyedflib", "pyte", "wfdb"],
}
PR_SET_PDEATHSIG = 1
MOST_REQUEST_OCTETS = 1 << 20


def commands(prefix, *kinds):
    """The servers of the Pythons that are installed, each at an address of its own that begins so."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ringtap")
    found = []
    for kind in kinds:
        package = MODULES[kind][0].split(".")[0]
        folders = [
            folder for folder in glob.glob(f"{cache}/{kind}-*")
            if os.path.exists(f"{folder}/complete") and glob.glob(f"{folder}/lib/*/site-packages/{package}")]
        if folders:
            folder = max(folders, key=lambda folder: os.path.getmtime(f"{folder}/complete"))
            found.append([
                f"{folder}/bin/python", os.path.abspath(__file__), f"{prefix}-{os.path.basename(folder)}", *MODULES[kind]])
    return found


class Script:
    """A running script, and the connection that waits for its end."""

    def __init__(self, connection, number):
        self.connection, self.number, self.end = connection, number, os.pidfd_open(number)
        self.tell(number)

    def tell(self, number):
        try:
            self.connection.send(str(number).encode())
        except OSError:
            pass  # It is gone, which the next poll tells.

    def tell_end(self):
        """Its number stays its own until the other side has closed."""
        end = os.waitid(os.P_PID, self.number, os.WEXITED | os.WNOWAIT)
        self.tell(end.si_status + (0 if end.si_code == os.CLD_EXITED else 128))

    def close(self):
        os.kill(self.number, signal.SIGKILL)
        os.waitpid(self.number, 0)
        os.close(self.end)
        self.connection.close()


def serve(address):
    """Returns in each new process only, with what it is to run."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0" + address)
    listener.listen(64)
    waiting, scripts = select.poll(), {}
    waiting.register(listener, select.POLLIN)
    while True:
        for descriptor, _ in waiting.poll():
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                request, streams, _, _ = socket.recv_fds(connection, MOST_REQUEST_OCTETS, 3)
                if len(streams) < 3:
                    connection.close()  # Who asked is gone.
                    continue
                number = os.fork()
                if number == 0:
                    return json.loads(request), streams
                for stream in streams:
                    os.close(stream)
                script = Script(connection, number)
                for descriptor in (script.end, connection.fileno()):
                    scripts[descriptor] = script
                    waiting.register(descriptor, select.POLLIN)
                continue
            script = scripts.get(descriptor)
            if script is None:
                continue  # Closed in this round.
            if descriptor == script.end:
                waiting.unregister(descriptor)
                script.tell_end()
            else:
                for descriptor in (script.end, script.connection.fileno()):
                    del scripts[descriptor]
                    try:
                        waiting.unregister(descriptor)
                    except KeyError:
                        pass  # Its end was told.
                script.close()


def become(request, streams):
    """Takes over what a new process has of its own."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # One that a shell starts in the background ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])


def main():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    address, *modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    # Collecting would write to each page that is shared.
    gc.freeze()
    become(*serve(address))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
