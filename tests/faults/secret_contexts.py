"""Contexts in which secrets occur, a development half and a held-out half, and the sets made of them.

`ordinary` and `hard` return made-up secrets, `lookalikes` harmless lines in the same formats. The halves share neither
providers nor contexts nor seeds: patterns are written with the development half at hand, and the held-out half says
what they are worth.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from urllib.parse import quote

from tests.faults import secret_formats
from tests.faults.secret_corpus import Maker, Secret
from tests.faults.secret_formats import Format, fill

Context = Callable[[str, str, str], str]
"""Takes a provider, the name of a variable and a secret."""


def _said(text: str) -> str:
    """Return a text as an agent's transcript has it."""
    return json.dumps(
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}}
    )


def _tool_result(text: str) -> str:
    """Return what a tool printed as a transcript has it, with the JSON of the tool inside of it."""
    inner = json.dumps({"stdout": text, "exit_code": 0})
    content = [{"type": "tool_result", "tool_use_id": "toolu_01A09q90qw90lq917835lq9", "content": inner}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}})


def _env(name: str, value: str) -> str:
    return f"NODE_ENV=production\nPORT=8080\n{name}={value}\nDEBUG=0\n"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ORDINARY_CONTEXTS_DEV: tuple[Context, ...] = (
    lambda who, name, value: f"export {name}={value}",
    lambda who, name, value: f'{name}="{value}"',
    lambda who, name, value: json.dumps({"region": "eu-west-1", name.lower(): value, "debug": True}),
    lambda who, name, value: f'<learning category="pitfall">The {who} key is {value}, it expires.</learning>',
    lambda who, name, value: f"MEMORY: pattern: use the {who} key {value} in tests",
    lambda who, name, value: f"curl -sS -H 'Authorization: Bearer {value}' https://api.example.com/v1/models",
    lambda who, name, value: f"services:\n  app:\n    environment:\n      {name}: {value}\n",
    lambda who, name, value: f"client = Client(\n    api_key='{value}',\n    timeout=30,\n)",
    lambda who, name, value: _said(f"I set it:\n{name}={value}\nand it works."),
    lambda who, name, value: f"$ env | sort\nHOME=/root\n{name}={value}\nPATH=/usr/bin",
)
ORDINARY_CONTEXTS_HELD_OUT: tuple[Context, ...] = (
    lambda who, name, value: f"set {name}={value}",
    lambda who, name, value: f"$env:{name} = '{value}'",
    lambda who, name, value: f'[{who.lower()}]\n{name.lower()} = "{value}"\n',
    lambda who, name, value: f"docker run --rm -e {name}={value} -p 80:80 app",
    lambda who, name, value: f"-{name}=\n+{name}={value}\n",
    lambda who, name, value: f"gh secret set {name} --body {value}",
    lambda who, name, value: f"<failure-report>\nwhy_failed: 401, the {who} token is `{value}`\n</failure-report>",
    lambda who, name, value: f"2026-11-17T10:11:12Z INFO config loaded name={name} apiKey={value} retries=3",
    lambda who, name, value: f"> X-API-Key: {value}\n> Accept: */*",
    lambda who, name, value: _tool_result(f"PATH=/usr/bin\n{name}={value}\nLANG=C"),
)
HARD_CONTEXTS_DEV: tuple[Context, ...] = (
    lambda who, name, value: f"GET https://api.example.com/v1/search?q=tea&key={quote(value, safe='')}&page=2 200",
    lambda who, name, value: f"echo {_base64(_env(name, value))} | base64 -d > .env",
    lambda who, name, value: f"{who}: {value}",
    lambda who, name, value: f"| {who} | `{value}` | expires in May |",
    lambda who, name, value: _tool_result(_said(f"export {name}={value}\n")),
    lambda who, name, value: f"body={quote(f'{name}={value}', safe='')}&submit=1",
    lambda who, name, value: f"[32m{name}[0m=[33m{value}[0m",
    lambda who, name, value: f"https://{value.replace('/', '-').replace(' ', '')}@git.example.com/o/r.git",
    lambda who, name, value: f"machine api.example.com\n  login bot\n  password {value.replace(' ', '')}\n",
    lambda who, name, value: f"{value} <- {who}, do not lose it",
)
HARD_CONTEXTS_HELD_OUT: tuple[Context, ...] = (
    lambda who, name, value: f"https://maps.example.com/api/js?callback=init&api_key={quote(value, safe='')}",
    lambda who, name, value: f"  .env: {_base64(_env(name, value))}",
    lambda who, name, value: f"For {who} we have {value} since Monday.",
    lambda who, name, value: f"- {who} = {value}",
    lambda who, name, value: json.dumps(_tool_result(json.dumps({name.lower(): value}))),
    lambda who, name, value: json.dumps(
        {"resources": [{"instances": [{"attributes": {"id": "x", "value": value, "name": name}}]}]}
    ),
    lambda who, name, value: (
        f"File \"app.py\", line 3, in call\n    raise AuthError('{who} refused {value}')\nAuthError: {who}"
    ),
    lambda who, name, value: f"default login bot password {value.replace(' ', '')}",
    lambda who, name, value: f"postgres://bot:{quote(value, safe='')}@db.example.com:6543/app",
    lambda who, name, value: f"cat > ~/.config/{who.lower().replace(' ', '-')}/token <<EOF\n{value}\nEOF",
)


def _cross(formats: Sequence[Format], contexts: Sequence[Context], each: int, seed: int) -> list[Secret]:
    """Return every format in `each` of the contexts, evenly spread."""
    make = Maker(seed)
    found = []
    for at, (who, name, template) in enumerate(formats):
        for turn in range(each):
            value = fill(template, make)
            text = contexts[(at + turn * 2) % len(contexts)](who, name, value)
            found.append(
                Secret(
                    kind=f"{who} {name} in context {(at + turn * 2) % len(contexts)}",
                    text=text,
                    hidden=_hidden(value, text),
                )
            )
    return found


def _hidden(value: str, text: str) -> tuple[str, ...]:
    """Return the last three quarters of a secret as the text has it, or all that is base64 in it."""
    core = value[len(value) // 4 :].rstrip("=")
    if core in text:
        return (core,)
    if (encoded := quote(core, safe="")) in text:
        return (encoded,)
    changed = core.replace("/", "-")
    return (changed,) if changed in text else (max(text.split(), key=len)[28:],)


def ordinary(held_out: bool = False) -> list[Secret]:
    """Return common secrets in common contexts."""
    made = _passwords(held_out)
    if held_out:
        return made + _cross(secret_formats.ORDINARY_HELD_OUT, ORDINARY_CONTEXTS_HELD_OUT, 5, 40_002)
    return made + _cross(secret_formats.ORDINARY_DEV, ORDINARY_CONTEXTS_DEV, 5, 40_001)


def hard(held_out: bool = False) -> list[Secret]:
    """Return rare tokens, and secrets in encodings and files."""
    made = _files(held_out)
    if held_out:
        return made + _cross(secret_formats.HARD_HELD_OUT, HARD_CONTEXTS_HELD_OUT, 5, 50_002)
    return made + _cross(secret_formats.HARD_DEV, HARD_CONTEXTS_DEV, 5, 50_001)


PASSWORDS_DEV = (
    "my password is {}",
    "mysql -h db -u app -p{} shop",
    "postgres://app:{}@db.example.com/shop",
    "db:\n  user: app\n  password: {}\n",
    "login with admin / {} on staging; the password expires",
    "sshpass -p '{}' ssh deploy@example.com",
    "PGPASSWORD={} psql -h db",
    'spring.datasource.password="{}"',
)
PASSWORDS_HELD_OUT = (
    "the admin's password was changed to {}",
    "redis://:{}@cache.example.com:6379/0",
    "smtp_pass: {}",
    "ldapsearch -D cn=admin -w {} -b dc=example",
    '<add key="Password" value="{}" />',
    "Server=db;User Id=sa;Pwd={};",
    "htpasswd -b .htpasswd admin {}",
    'variable "db_password" {{\n  default = "{}"\n}}',
)


def _passwords(held_out: bool) -> list[Secret]:
    make = Maker(60_002 if held_out else 60_001)
    found = []
    for saying in PASSWORDS_HELD_OUT if held_out else PASSWORDS_DEV:
        password = make.password().replace("#", "-").replace("%", "-")
        found.append(Secret(kind=f"password: {saying[:20]}", text=saying.format(password), hidden=(password,)))
    return found


FILES_DEV: dict[str, str] = {
    "netrc": "machine git.example.com login deploy password {A20}",
    "netrc, alphabetic": "machine git.example.com\nlogin deploy\npassword {L16}\n",
    "pgpass": "db.example.com:5432:shop:app:{A14}",
    "npmrc": "//registry.example.com/:_authToken={uuid}",
    "npmrc password": "//registry.example.com/:_password={B32}\n//registry.example.com/:username=bot",
    "pypirc": "[distutils]\nindex-servers = pypi\n[pypi]\nusername = bot\npassword = {A18}\n",
    "terraform": '{{"type": "random_password", "instances": [{{"attributes": {{"length": 20, "result": "{A20}"}}}}]}}',
    "kubeconfig": "users:\n- name: admin\n  user:\n    password: {A22}\n    username: admin\n",
    "kube token": "users:\n- name: ci\n  user:\n    token: {A64}\n",
    "GCP key id": '{{"type": "service_account", "private_key_id": "{H40}", "client_id": "1"}}',
    "AWS credentials": "[default]\naws_access_key_id = x\naws_secret_access_key = {B40}\n",
    "AWS secret alone": "{B40}",
    "Google chat hook": "https://chat.example.com/v1/spaces/AAAA/messages?key=x&token={S43}",
    "WireGuard": "[Interface]\nAddress = 10.0.0.2/32\nPrivateKey = {B43}=\n",
    "rails": "config/master.key: {H32}",
    "ansible": "ansible_become_pass: {A15}",
}
FILES_HELD_OUT: dict[str, str] = {
    "netrc, one per line": "machine ftp.example.com\n\tlogin anonymous\n\tpassword {A24}\n\taccount x",
    "pgpass, other port": "localhost:6432:*:postgres:{A16}",
    "npmrc _auth": "_auth = {B40}",
    "pip": "[global]\nindex-url = https://bot:{A24}@pypi.example.com/simple\n",
    "cargo": '[registries.mine]\ntoken = "{A32}"\n',
    "gem": "---\n:rubygems_api_key: {H48}\n",
    "terraform output": 'db_password = "{A20}"\n',
    "terraform sensitive": '{{"outputs": {{"db_password": {{"value": "{A20}", "type": "string"}}}}}}',
    "kube secret": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: app\ndata:\n  apikey: {B32}\n",
    "maven": "<server><id>x</id><username>bot</username><password>{A18}</password></server>",
    "gradle": "ossrhPassword={A18}\nsigning.password={A14}",
    "AWS secret in a list": "- {B40}",
    "Teams hook": "https://example.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{H32}/{uuid}",
    "Azure connection": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={B86}==;EndpointSuffix=x.net",
    "JDBC": "jdbc:mysql://db:3306/shop?user=app&password={A16}&useSSL=true",
    "git credentials": "https://bot:{A32}@git.example.com",
}


def _files(held_out: bool) -> list[Secret]:
    """Return secrets in the files of tools, plain and as the transcript of an agent that printed them."""
    make = Maker(70_002 if held_out else 70_001)
    found = []
    for kind, template in (FILES_HELD_OUT if held_out else FILES_DEV).items():
        for way, show in (("", str), (" in a transcript", _tool_result)):
            made = fill(template.replace("{{", "\0").replace("}}", "\1"), make).replace("\0", "{").replace("\1", "}")
            blank = fill(template, _Blank(1)).replace("{{", "{").replace("}}", "}")
            found.append(Secret(kind=kind + way, text=show(made), hidden=_difference(made, blank)))
    return found


class _Blank(Maker):
    """Makes secrets of one character, by which their place is found."""

    def word(self, letters: str, length: int) -> str:
        """Return a filler of the length that was asked for."""
        return "\x00" * length


def _difference(made: str, blank: str) -> tuple[str, ...]:
    """Return the longest made-up part of a text."""
    masked = "".join(one if other == "\x00" else " " for one, other in zip(made, blank, strict=True))
    longest = max(masked.split(), key=len)
    return (longest[len(longest) // 4 :],)
