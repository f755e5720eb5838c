"""Which process of this machine sent a request: one inside a session of a loop is an agent, whatever token it sends."""

from __future__ import annotations

import os
import socket
import struct
from ipaddress import ip_address

from ralph.core.actor import UNKNOWN_CLIENT
from ralph.core.ancestry import IS_LINUX, find_session_processes, sessions_or_mark
from ralph.core.records import record
from ralph.workspace import agent_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.actor import Actor

    Address = tuple[str, int]

MAPPED = "::ffff:"
"""Prefix of an IPv4 address in an IPv6 socket."""


@record
class PeerSocket:
    """Socket at the other end of a connection on this machine."""

    inode: int
    """0 if the process has closed it."""
    user: int


def peer_agent(root: str, client: Address, server: Address) -> Actor | None:
    """Return the agent that sent a request for a project; None if it came from anywhere else.

    A client that has closed its connection could be an agent whose session has just ended, so it counts as one. While a
    session runs, so does a client of this user whose process cannot be found.
    """
    if not IS_LINUX:
        return None
    client, server = _unmapped(client), _unmapped(server)
    peer = _find_socket(client, server)
    if peer is None:
        return UNKNOWN_CLIENT if _is_local(client, server) else None
    if not peer.inode:
        return UNKNOWN_CLIENT
    inside = find_session_processes()
    for pid in inside:  # of any user: a session may have others, such as those of a container without root
        if _holds(pid, peer.inode) is not False:
            return agent_at(root, sessions_or_mark(pid))
    if not inside or peer.user not in (os.geteuid(), os.getuid()):
        return None
    outside = [_holds(int(name), peer.inode) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    # A socket that nobody holds is on its way between two processes, or in one that hides what it holds.
    return None if any(outside) else UNKNOWN_CLIENT


def _find_socket(client: Address, server: Address) -> PeerSocket | None:
    """Return the client's end of a connection, or None if it is not on this machine."""
    tables = {"tcp6": (client, server)}
    if ":" not in client[0]:
        tables = {"tcp": (client, server), "tcp6": (_mapped(client), _mapped(server))}
    return next(filter(None, (_find_row(table, *ends) for table, ends in tables.items())), None)


def _find_row(table: str, client: Address, server: Address) -> PeerSocket | None:
    wanted = f"{_hex(client)} {_hex(server)} ".encode()
    try:
        with open(f"/proc/net/{table}", "rb") as file:  # noqa: PTH123
            for line in file:
                if wanted in line:
                    fields = line.split()
                    return PeerSocket(user=int(fields[7]), inode=int(fields[9]))
    except OSError:
        pass
    return None


def _mapped(address: Address) -> Address:
    """Return an IPv4 address as an IPv6 socket has it."""
    return f"{MAPPED}{address[0]}", address[1]


def _unmapped(address: Address) -> Address:
    return address[0].lower().removeprefix(MAPPED), address[1]


def _is_local(client: Address, server: Address) -> bool:
    """Return whether a client is on this machine: its address is, or no other machine reaches the server's."""
    if ip_address(server[0]).is_loopback or client[0] == server[0]:
        return True
    with socket.socket(_family(client)) as probe:
        try:
            probe.bind((client[0], 0))
        except OSError:
            return False
    return True


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _hex(address: Address) -> str:
    """Return an address as in /proc/net/tcp: words in the byte order of this machine."""
    packed = socket.inet_pton(_family(address), address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{address[1]:04X}"


def _holds(pid: int, inode: int) -> bool | None:
    """Return whether a process has a socket open; None if it does not let us see that."""
    folder, name = f"/proc/{pid}/fd", f"socket:[{inode}]"
    try:
        files = os.listdir(folder)  # noqa: PTH208
    except PermissionError:
        return None
    except OSError:
        return False  # it has exited
    return any(_target(f"{folder}/{file}") == name for file in files)


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return ""
