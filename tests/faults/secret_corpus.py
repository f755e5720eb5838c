"""Generator of secrets of all kinds, and of lines that only look like one."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator

from ralph.core.records import record

WINDOW = 9
"""Number of consecutive characters of a secret that count as a leak."""
SMALL, BIG, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
HEX = "0123456789abcdef"
ANY = BIG + SMALL + DIGITS
BASE64 = ANY + "+/"


@record
class Secret:
    """A text with a secret in it."""

    kind: str
    text: str
    hidden: tuple[str, ...]
    """Parts that must not be visible."""

    def seen_in(self, text: str) -> str:
        """Return a piece of the secret that a text contains, or an empty string."""
        for one in self.hidden:
            size = min(WINDOW, len(one))
            for start in range(0, len(one) - size + 1):
                if one[start : start + size] in text:
                    return one[start : start + size]
        return ""


class Maker:
    """Makes secrets up."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def word(self, letters: str, length: int) -> str:
        """Return random characters with at least one digit."""
        while True:
            made = "".join(self.chance.choices(letters, k=length))
            has_digit = any(letter in DIGITS for letter in made) or not set(letters) & set(DIGITS)
            if has_digit and (made[0].isalnum() and made[-1].isalnum()):
                return made

    def password(self) -> str:
        """Return a password as people choose them."""
        words = ["Falcon", "River", "Copper", "Sunset", "Marble", "Orchid", "Tundra", "Velvet"]
        return (
            self.chance.choice(words)
            + self.chance.choice("!-_.#%+")
            + self.word(ANY, 6)
            + str(self.chance.randrange(10, 9999))
        )

    def lines(self, count: int, width: int = 64, letters: str = BASE64) -> list[str]:
        """Return lines of base64."""
        return [self.word(letters, width) for _ in range(count)]


Made = tuple[str, tuple[str, ...]]
"""A text and its secrets."""


def _tokens(make: Maker) -> Iterator[tuple[str, str]]:
    """Yield a token of each known format."""
    word = make.word
    yield "AWS key id", "AK" + "IA" + word(BIG + "234567", 16)
    yield "AWS session id", "AS" + "IA" + word(BIG + "234567", 16)
    yield "GitHub", "gh" + "p_" + word(ANY, 36)
    yield "GitHub OAuth", "gh" + "o_" + word(ANY, 36)
    yield "GitHub server", "gh" + "s_" + word(ANY, 36)
    yield "GitHub refresh", "gh" + "r_" + word(ANY, 76)
    yield "GitHub fine-grained", "github" + "_pat_" + word(ANY, 22) + "_" + word(ANY, 59)
    yield "GitLab", "gl" + "pat-" + word(ANY + "-_", 20)
    yield "GitLab routable", "gl" + "pat-" + word(ANY, 27) + ".01." + word(SMALL + DIGITS, 9)
    yield "GitLab runner", "gl" + "rt-" + word(ANY, 20)
    yield "Slack bot", "xox" + "b-" + word(DIGITS, 12) + "-" + word(DIGITS, 12) + "-" + word(ANY, 24)
    yield "Slack user", "xox" + "p-" + "-".join(word(DIGITS, 11) for _ in range(3)) + "-" + word(HEX, 32)
    yield "Slack app", "xa" + "pp-1-" + word(BIG + DIGITS, 11) + "-" + word(DIGITS, 13) + "-" + word(HEX, 64)
    yield (
        "Slack hook",
        "https://hooks."
        + "slack.com/services/T"
        + word(BIG + DIGITS, 8)
        + "/B"
        + word(BIG + DIGITS, 8)
        + "/"
        + word(ANY, 24),
    )
    yield "Stripe", "sk" + "_live_" + word(ANY, 24)
    yield "Stripe, long", "sk" + "_test_" + word(ANY, 99)
    yield "Stripe restricted", "rk" + "_live_" + word(ANY, 24)
    yield "Stripe webhook", "whsec" + "_" + word(ANY, 32)
    yield "OpenAI", "sk" + "-" + word(ANY, 20) + "T3Blbk" + "FJ" + word(ANY, 20)
    yield "OpenAI project", "sk" + "-proj-" + word(ANY + "-_", 74) + "T3Blbk" + "FJ" + word(ANY + "-_", 74)
    yield "Anthropic", "sk" + "-ant-api03-" + word(ANY + "-_", 93) + "AA"
    yield "Anthropic OAuth", "sk" + "-ant-oat01-" + word(ANY + "-_", 93) + "AA"
    yield "npm", "np" + "m_" + word(ANY, 36)
    yield "PyPI", "py" + "pi-AgEIcHlwaS5vcmc" + word(ANY + "-_", 120)
    yield "Twilio", "S" + "K" + word(HEX, 32)
    yield "SendGrid", "S" + "G." + word(ANY + "-_", 22) + "." + word(ANY + "-_", 43)
    yield "Google API", "AI" + "za" + word(ANY + "-_", 35)
    yield "Google OAuth", "ya" + "29." + word(ANY + "-_", 100)
    yield "Google client", "GOC" + "SPX-" + word(ANY + "-_", 28)
    yield "Hugging Face", "h" + "f_" + word(ANY, 34)
    yield "Docker", "dckr" + "_pat_" + word(ANY + "-_", 27)
    yield "Databricks", "da" + "pi" + word(HEX, 32)
    yield "DigitalOcean", "do" + "p_v1_" + word(HEX, 64)
    yield "Vault", "hv" + "s." + word(ANY + "-_", 90)
    yield "Atlassian", "ATA" + "TT3xFfGF0" + word(ANY + "-_", 170) + "=" + word(HEX.upper(), 8)
    yield "Sentry", "sntry" + "u_" + word(HEX, 64)
    yield "Linear", "lin" + "_api_" + word(ANY, 40)
    yield "Notion", "nt" + "n_" + word(DIGITS, 11) + word(ANY, 35)
    yield "Groq", "gs" + "k_" + word(ANY, 52)
    yield "Telegram", word(DIGITS, 10) + ":AA" + word(ANY + "-_", 33)
    yield "Discord", "M" + word(ANY, 23) + "." + word(ANY, 6) + "." + word(ANY + "-_", 38)
    yield "Mailchimp", word(HEX, 32) + "-us" + word("123456789", 1)
    yield "Square", "sq0" + "csp-" + word(ANY + "-_", 43)
    yield "age", "AGE-SECRET" + "-KEY-1" + word(BIG + "234567", 58)
    yield "Shopify", "shp" + "at_" + word(HEX, 32)
    yield "New Relic", "NR" + "AK-" + word(BIG + DIGITS, 27)
    yield "Grafana", "gl" + "sa_" + word(ANY, 32) + "_" + word(HEX, 8)
    yield "Terraform", word(ANY, 14) + ".atlas" + "v1." + word(ANY + "-_", 64)
    yield "Pulumi", "pu" + "l-" + word(HEX, 40)
    yield "Figma", "fig" + "d_" + word(ANY + "-_", 40)
    yield "Airtable", "pa" + "t" + word(ANY, 14) + "." + word(HEX, 64)
    yield "RubyGems", "ruby" + "gems_" + word(HEX, 48)
    yield "Heroku", "HR" + "KU-AA" + word(ANY + "-_", 58)
    yield "Fly", "Fly" + "V1 fm2_" + word(BASE64, 100)
    yield "JWT", _web_token(make)


def _web_token(make: Maker) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    claims = json.dumps({"sub": make.word(DIGITS, 10), "name": make.word(ANY, 8)}).encode()
    return f"{head}.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{make.word(ANY + '-_', 43)}"


ROUND: tuple[Callable[[str], str], ...] = (
    lambda token: token,
    lambda token: f"I used {token} for this.",
    lambda token: f'  "key": "{token}",',
    lambda token: f"+API={token}",
    lambda token: f"curl -H 'Authorization: Bearer {token}' https://example.org",
    lambda token: f"https://example.org/?access={token}&page=2",
    lambda token: f"| {token} | in a table |",
    lambda token: f"Error: 401 for <{token}>",
)
"""Texts around a token."""
HIDING: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("colours", lambda token: f"{token[: len(token) // 2]}\x1b[1;32m{token[len(token) // 2 :]}\x1b[0m"),
    ("zero width", lambda token: "\u200b".join([token[:5], token[5:11], token[11:]])),
    ("soft hyphen", lambda token: "\u00ad".join([token[:7], token[7:]])),
    ("NUL", lambda token: f"{token[:9]}\x00{token[9:]}"),
    ("tags", lambda token: f"{token[:6]}\U000e0041{token[6:]}"),
    ("wrapped", lambda token: f"{token[: len(token) * 2 // 3]}\n{token[len(token) * 2 // 3 :]}"),
    ("wrapped and indented", lambda token: f"    {token[: len(token) * 2 // 3]}\n    {token[len(token) * 2 // 3 :]}"),
    ("continued", lambda token: f'"{token[: len(token) * 2 // 3]}\\\n{token[len(token) * 2 // 3 :]}"'),
)
"""Ways to break a token up: by invisible characters, or at the end of a line."""
PEM = ("RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "")


def _keys(make: Maker) -> Iterator[tuple[str, Made]]:
    """Yield private keys: whole, cut, indented, in quotes, in JSON."""
    for name in PEM:
        body = make.lines(12)
        begin, end = f"-----BEGIN {name}PRIVATE KEY-----", f"-----END {name}PRIVATE KEY-----"
        whole = "\n".join([begin, *body, end])
        label = name.strip() or "PKCS8"
        yield f"{label} key", (f"before\n{whole}\nafter", tuple(body))
        yield f"{label} key, first half", ("\n".join([begin, *body[:6]]), tuple(body[:6]))
        yield f"{label} key, second half", ("\n".join([*body[6:], end]), tuple(body[6:]))
        yield (
            f"{label} key, indented",
            ("key: |\n" + "\n".join(f"    {line}" for line in whole.split("\n")), tuple(body)),
        )
        yield f"{label} key, quoted", ("\n".join(f"> {line}" for line in whole.split("\n")), tuple(body))
        yield f"{label} key in JSON", (json.dumps({"key": whole + "\n", "id": "k-1"}), tuple(body))
        yield f"{label} key in a string", (f'KEY = "{begin}\\n" + "{body[0]}\\n" + "{body[1]}"', tuple(body[:2]))
        yield f"{label} key in a diff", ("\n".join(f"+{line}" for line in whole.split("\n")), tuple(body))
        yield f"{label} key, first half in JSON", (json.dumps({"key": whole})[: 60 + 64 * 6], tuple(body[:5]))
        numbered = "\n".join(f"{number:4}\t{line}" for number, line in enumerate(whole.split("\n"), 1))
        yield f"{label} key in a listing", (numbered, tuple(body))
    body = make.lines(10)
    pgp = "\n".join(["-----BEGIN PGP PRIVATE KEY" + " BLOCK-----", "Version: GnuPG v2", "", *body, "=aB3d"])
    yield "PGP key", (f"{pgp}\n-----END PGP PRIVATE KEY" + " BLOCK-----", tuple(body))
    yield "PGP key, cut", (pgp, tuple(body))
    body = make.lines(3)
    yield "PuTTY key", ("\n".join(["Private-Lines: 3", *body, "Private-MAC: 00"]), tuple(body))


def _structured(make: Maker) -> Iterator[tuple[str, Made]]:
    """Yield secrets that are recognized by their context."""
    word = make.word

    def one(kind: str, text: str, *hidden: str) -> tuple[str, Made]:
        return kind, (text, hidden)

    password, hexes, key = make.password(), word(HEX, 40), word(BASE64, 40)
    yield one("AWS secret", f"aws_secret_access_key = {key}", key)
    key = word(BASE64, 40)
    yield one("AWS secret, exported", f"export AWS_SECRET_ACCESS_KEY={key}", key)
    key = word(BASE64, 40)
    yield one("AWS secret in JSON", json.dumps({"SecretAccessKey": key, "Version": 1}), key)
    key = word(BASE64, 200)
    yield one("AWS session token", f"aws_session_token={key}", key)
    key = word(BASE64, 86) + "=="
    yield one("Azure storage", f"AccountName=me;AccountKey={key};EndpointSuffix=core.windows.net", key[:80])
    key = word(ANY, 3) + "8Q~" + word(ANY + "-_.~", 34)
    yield one("Azure client", f"AZURE_CLIENT_SECRET={key}", key)
    key = word(BASE64, 43) + "="
    yield one(
        "Azure bus",
        f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={key}",
        key[:40],
    )
    sig = word(ANY, 40) + "%3D"
    yield one(
        "Azure SAS", f"https://x.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&sr=c&sp=r&sig={sig}", sig[:40]
    )
    body = make.lines(8)
    account = {
        "type": "service_account",
        "private_key_id": word(HEX, 40),
        "private_key": "-----BEGIN PRIVATE" + " KEY-----\n" + "\n".join(body) + "\n-----END PRIVATE" + " KEY-----\n",
        "client_email": "robot@example.org",
    }
    yield one("Google account", json.dumps(account, indent=2), *body)
    yield one("Google account, one line", json.dumps(account), *body)
    for scheme in ("https", "ftp", "postgres", "postgresql", "mysql", "mongodb+srv", "redis", "amqps", "smtp"):
        password = make.password().replace("#", "-").replace("%", "-")
        yield one(f"{scheme} address", f"{scheme}://deploy:{password}@db.example.org:5432/app?ssl=1", password)
    password = make.password()
    yield one("address with @ in the password", f"postgres://app:{password}@x@db.example.org/app", password)
    password = word(ANY, 24)
    yield one("address with a token", f"git clone https://{password}@github.com/o/r.git", password)
    password = word(ANY, 24)
    yield one("libpq words", f"host=db user=app password={password} dbname=app", password)
    password = make.password()
    yield one("libpq quoted", f"host=db user=app password='{password}' dbname=app", password)
    password = word(ANY, 16)
    yield one("JDBC", f"jdbc:postgresql://db/app?user=a&password={password}", password)
    password = word(ANY, 18)
    yield one("ADO", f"Server=db;Database=app;User Id=sa;Password={password};", password)
    for name in ("Bearer", "bearer", "BEARER"):
        key = word(ANY + "-_", 40)
        yield one("bearer header", f"Authorization: {name} {key}", key)
    key = word(ANY, 32)
    yield one("bearer header in JSON", json.dumps({"headers": {"Authorization": f"Bearer {key}"}}), key)
    key = word(ANY, 32)
    yield one("token header", f"Authorization: Token {key}", key)
    for name in (
        "X-Api-Key",
        "X-Auth-Token",
        "PRIVATE-TOKEN",
        "X-Amz-Security-Token",
        "api-key",
        "Ocp-Apim-Subscription-Key",
    ):
        key = word(ANY, 32)
        yield one(f"header {name}", f"> {name}: {key}", key)
    basic = base64.b64encode(f"deploy:{(password := make.password())}".encode()).decode()
    yield one("basic header", f"Authorization: Basic {basic}", basic[:-4], password)
    basic = base64.b64encode(f"deploy:{(password := make.password())}".encode()).decode()
    yield one("basic header in JSON", json.dumps({"authorization": f"Basic {basic}"}), basic[:-4], password)
    for name in ("sessionid", "connect.sid", "JSESSIONID", "_session_id", "auth_token", "PHPSESSID", "csrftoken"):
        key = word(ANY, 32)
        yield one(f"cookie {name}", f"Cookie: theme=dark; {name}={key}; lang=en", key)
        key = word(ANY, 32)
        yield one(f"set-cookie {name}", f"< Set-Cookie: {name}={key}; Path=/; HttpOnly", key)
    key = word(ANY, 32)
    yield one("curl with a cookie", f"curl -b 'session={key}' https://example.org", key)
    password = make.password()
    yield one("curl -u", f"curl -u deploy:{password} https://example.org/x", password)
    password = make.password()
    yield one("curl --user", f"curl --user 'deploy:{password}' https://example.org/x", password)
    password = word(ANY, 14)
    yield one("mysql -p", f"mysql -u root -p{password} app", password)
    for flag in ("--password", "--token", "--api-key", "--secret", "--client-secret", "--access-token", "--passphrase"):
        key = word(ANY, 20)
        yield one(f"flag {flag}", f"deploy {flag} {key} --yes", key)
        key = word(ANY, 20)
        yield one(f"flag {flag}=", f"deploy {flag}={key} --yes", key)
    password = make.password()
    yield one("sshpass", f"sshpass -p '{password}' ssh deploy@example.org", password)
    auth = base64.b64encode(f"deploy:{(password := make.password())}".encode()).decode()
    yield one(
        "docker config",
        json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": auth}}}, indent=1),
        auth[:-4],
        password,
    )
    key = word(ANY, 40)
    yield one("docker identity", json.dumps({"identitytoken": key}), key)
    data = base64.b64encode(("-----BEGIN RSA PRIVATE" + " KEY-----\n" + word(BASE64, 64)).encode()).decode()
    yield one("kube key", f"users:\n- name: me\n  user:\n    client-key-data: {data}", data[14:100])
    key = word(ANY + "-_", 60)
    yield one("kube token", f"users:\n- name: me\n  user:\n    token: {key}", key)
    value = base64.b64encode(make.password().encode()).decode()
    yield one("kube secret", f"kind: Secret\ndata:\n  db-password: {value}", value[:-3])
    password = make.password()
    yield one(".netrc", f"machine example.org login deploy password {password}", password)
    password = make.password()
    yield one(".netrc, in lines", f"machine example.org\n  login deploy\n  password {password}", password)
    password = word(ANY, 16)
    yield one(".pgpass", f"db.example.org:5432:app:deploy:{password}", password)
    key = word(ANY, 30)
    yield one(".npmrc", f"//registry.example.org/:_authToken={key}", key)
    key = base64.b64encode(f"me:{word(ANY, 16)}".encode()).decode()
    yield one(".npmrc auth", f"_auth={key}", key[:-4])
    password = make.password()
    yield one(".pypirc", f"[pypi]\nusername = me\npassword = {password}", password)
    hashed = "$2b$12$" + word(ANY, 53)
    yield one("bcrypt", f"admin:{hashed}", hashed[7:])
    hashed = "$6$" + word(ANY, 8) + "$" + word(ANY, 86)
    yield one("shadow", f"root:{hashed}:19000:0:99999:7:::", hashed[12:])
    names = (
        *("DB_PASSWORD", "DATABASE_PASSWORD", "POSTGRES_PASSWORD", "MYSQL_ROOT_PASSWORD", "REDIS_PASS", "SMTP_PASSWD"),
        *("SECRET_KEY", "DJANGO_SECRET_KEY", "JWT_SECRET", "SESSION_SECRET", "COOKIE_SECRET", "CLIENT_SECRET"),
        *("API_KEY", "MISTRAL_API_KEY", "COHERE_API_KEY", "ALGOLIA_ADMIN_KEY", "ENCRYPTION_KEY", "MASTER_KEY"),
        *("SIGNING_KEY", "DEPLOY_KEY", "LICENSE_KEY", "ACCESS_TOKEN", "AUTH_TOKEN", "REFRESH_TOKEN", "BOT_TOKEN"),
        *("DATADOG_APP_KEY", "CIRCLE_TOKEN", "VAULT_TOKEN", "APP_CREDENTIALS", "WEBHOOK_SIGNATURE_KEY", "PGPASSWORD"),
        *("NEXTAUTH_SECRET", "RAILS_MASTER_KEY", "ADMIN_PWD", "KEYSTORE_PASSPHRASE", "OAUTH_CLIENT_SECRET", "HMAC_KEY"),
    )
    for name in names:
        hexes, key, password = word(HEX, 40), word(ANY, 32), make.password()
        yield one(".env", f"{name}={hexes}", hexes)
        yield one(".env in quotes", f'{name}="{password}"', password)
        yield one("shell", f"export {name}='{key}'", key)
        hexes, key, password = word(HEX, 40), word(ANY, 32), make.password()
        yield one("YAML", f"env:\n  {name.lower()}: {password}", password)
        yield one("TOML", f'{name.lower()} = "{key}"', key)
        yield one("JSON", json.dumps({name.lower(): hexes, "debug": True}), hexes)
        key, password = word(ANY, 32), make.password()
        camel = "".join(part.title() for part in name.split("_"))
        yield one("camel case", f'{camel[0].lower()}{camel[1:]}: "{key}",', key)
        yield one("Docker", f"ENV {name} {key}", key)
        yield one("escaped JSON", json.dumps(json.dumps({name.lower(): (escaped := word(ANY, 32))})), escaped)
        yield one("Compose", f"      - {name}={password}", password)
        key = word(ANY, 32)
        yield one("CI", f"::add-mask:: {name}: {key}", key)
    for text in ("Basic auth was {}.", "echo {} | base64 -d", "Login as {}"):
        whole = base64.b64encode(f"username:{(password := make.password())}".encode()).decode()
        yield one("base64 of a password", text.format(whole), whole[:-4], password)


def _plain_words(make: Maker) -> Iterator[tuple[str, Made]]:
    """Yield passwords in sentences."""
    sayings = (
        "my password is {}",
        "The password is {}.",
        "The password for staging is {}",
        "the database password is '{}'",
        'Its password is "{}", user deploy.',
        "password was {} until yesterday",
        "I logged in with password {} and it worked",
        "Log in as admin with the password {}.",
        "user: admin, pass: {}",
        "username admin password {}",
        "login: admin / {}",
        "admin:{} works for the dashboard",
        "credentials: deploy/{}",
        "The API key is {}",
        "Use the API key {} for the sandbox.",
        "our token is `{}`",
        "the token for CI: {}",
        "the secret is {}",
        "The passphrase is {}",
        "PIN/password = {}",
        "pw is {}",
        "pwd {} for root",
        "I set the password to {}",
        "changed the admin password from {} to something else",
    )
    for saying in sayings:
        password = make.password()
        yield "plain words", (saying.format(password), (password,))


def all_secrets(seed: int) -> list[Secret]:
    """Return secrets of every kind in every context; each seed makes others."""
    make = Maker(seed)
    found: list[Secret] = []
    for at, (kind, token) in enumerate(_tokens(make)):
        for shape in (ROUND[at % len(ROUND)], ROUND[(at + 3) % len(ROUND)]):
            found.append(Secret(kind=kind, text=shape(token), hidden=(_core(token),)))
    for at, (kind, token) in enumerate(_tokens(make)):
        if "/" not in token and " " not in token:
            how, hide = HIDING[at % len(HIDING)]
            found.append(Secret(kind=f"{kind}, {how}", text=f"key {hide(token)}", hidden=(_core(token),)))
    for source in (_keys, _structured, _plain_words):
        found += [Secret(kind=kind, text=text, hidden=hidden) for kind, (text, hidden) in source(make)]
    return found


def _core(token: str) -> str:
    """Return the part of a token that is secret, without the common prefix."""
    return token[max(0, len(token) // 4) :]


def innocent_lines(seed: int) -> list[str]:
    """Return harmless lines that look random or speak of secrets."""
    make = Maker(seed)
    word = make.word
    made: list[str] = []
    for _ in range(12):
        commit, digest, uuid = word(HEX, 40), word(HEX, 64), "-".join(word(HEX, n) for n in (8, 4, 4, 4, 12))
        sha512, md5, png = word(BASE64, 86), word(HEX, 32), word(BASE64, 120)
        made += [
            f"commit {commit}",
            f"Merge {commit[:10]} into {word(HEX, 10)}",
            f"index {commit[:7]}..{word(HEX, 7)} 100644",
            f"id: {uuid}",
            f'"request_id": "{uuid}",',
            f"GET /api/tasks/{uuid} 200",
            f"    --hash=sha256:{digest} \\",
            f'"integrity": "sha512-{sha512}==",',
            f'checksum = "{digest}"',
            f"{digest}  ralph-1.2.3.tar.gz",
            f"image: registry.example.org/app@sha256:{digest}",
            f"md5: {md5}",
            f'etag: "{md5}"',
            f"data:image/png;base64,iVBORw0KGgo{png}",
            f"github.com/pkg/errors v0.9.1 h1:{word(BASE64, 43)}=",
            f"trace_id={md5} span_id={word(HEX, 16)}",
            f"https://example.org/{word(SMALL, 8)}/{commit}/raw",
            f"docker pull alpine@sha256:{digest}",
            f"key fingerprint SHA256:{word(BASE64, 43)}",
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{word(BASE64, 43)} me@example.org",
        ]
    return [*made, *SPEAKING.strip("\n").split("\n")]


SPEAKING = r"""
password = get_password()
password = os.environ["DB_PASSWORD"]
password: str | None = None
def check_password(password: str, hashed: str) -> bool:
if password == confirm_password:
raise ValueError("password is too short")
the token bucket refills ten times a second
The password is hashed with argon2 before it is stored.
The password is wrong, and the test says so.
The password field is required.
the password is never logged
my password is not the problem here
The token is missing from the request.
The token is refreshed every hour.
The secret is to run the tests first.
The secret is out: caching helps.
The API key is read from the environment.
The key is the pair (project, id).
Use the token from the header, not the cookie.
the token for CI is kept in the settings of the repository
A password with digits is required: at least 12 characters.
password must be 8-64 characters
Password: at least 12 characters, one digit
Forgot your password? Reset it here.
user: admin, pass: see the vault
login: see docs/setup.md
admin:admin is the default user of the sample
credentials: see 1Password
Set API_KEY in your environment.
API_KEY=your-api-key-here
API_KEY=changeme
API_KEY=<your key>
API_KEY=${API_KEY}
API_KEY=$(pass show api)
export TOKEN=$(cat token.txt)
TOKEN="$1"
token = request.headers["Authorization"]
token = secrets.token_hex(32)
tokens = tokenizer.encode(text)
max_tokens=4096
max_tokens: 128000
next_token_id: int = 0
tokens_used=12345678
input_tokens: 1234567, output_tokens: 7654321
token_count = 1048576
TOKEN_BYTES = 24
token_type: bearer
key = (project_id, task_id)
key=lambda item: item[1]
primary_key=True
foreign_key: tasks.id
cache_key = f"{user_id}:{page}"
cache_key=tasks-list-page-2
partition_key: customer_id
sort_key = created_at
keyboard_interrupt = True
secret = config["secret"]
secretName: postgres-credentials
secretKeyRef: {name: db, key: password}
passwordSecretRef: db-password
password_file: /run/secrets/db_password
PASSWORD_FILE=/run/secrets/db
POSTGRES_PASSWORD_FILE: /run/secrets/postgres
password-stdin
docker login --password-stdin registry.example.org
ralph serve --token-file token.txt
deploy --token TOKEN --yes
deploy --password PASSWORD
deploy --token "$TOKEN"
deploy --api-key $API_KEY
--password PASSWORD   the password to log in with
--secret NAME         name of the secret
curl -u user:password https://example.org
curl -u "$USER:$PASS" https://example.org
curl -b cookies.txt https://example.org
mysql -u root -p app
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Basic <base64>
Use Basic authentication over TLS.
Cookie: theme=dark; lang=en
Set-Cookie: theme=dark; Path=/
https://user:password@example.org/
https://user:pass@example.org
postgres://user:password@localhost/db
postgresql://localhost:5432/ralph
postgres://${USER}:${PASSWORD}@localhost/db
mongodb://localhost:27017/app
git@github.com:owner/project.git
https://github.com/owner/project.git
machine example.org login me password from-the-keychain
-----BEGIN PUBLIC KEY-----
-----BEGIN CERTIFICATE-----
grep -r "BEGIN RSA PRIVATE KEY" .
The file starts with BEGIN PRIVATE KEY and a test looks for it.
MIIB is how a certificate begins
src/ralph/core/redaction.py:12: detect-secrets is loaded late
tests/core/test_redaction.py::test_private_keys_are_taken_out_whole PASSED
test_a_token_of_another_server_is_refused_by_every_route PASSED [ 42%]
class TokenBucket(Limiter): ...
class PasswordResetToken(Base): ...
from django.contrib.auth.tokens import PasswordResetTokenGenerator
import { getToken } from "next-auth/jwt"
const token = await getToken({ req })
const apiKey = process.env.API_KEY ?? ""
apiKey: string;
password?: string;
private readonly secretKey: Buffer
token: ${{ secrets.GITHUB_TOKEN }}
password: ${{ secrets.NPM_PASSWORD }}
password: !vault |
password: !Ref DatabasePassword
password: "{{ vault_db_password }}"
password = var.db_password
password = data.aws_secretsmanager_secret.db.id
SECRET_KEY_BASE is missing
secret_scanning: enabled
secret_rotation_days=90
token_expires_in: 3600
token_url: https://example.org/oauth/token
token-endpoint: https://login.example.org/oauth2/v2.0/token
password_reset_url = "https://example.org/reset"
access_key_rotation: quarterly
ssh_key_path: ~/.ssh/id_ed25519
key_file=/etc/ssl/private/server.key
private_key_path = "keys/server.pem"
public_key: ./keys/server.pub
api_key_header = "X-Api-Key"
api_key_name: staging
The API key for staging is called staging-key in the vault.
Passwort: siehe Tresor
Das Passwort ist falsch.
Das Passwort lautet anders als im Handbuch.
le mot de passe est incorrect
La contraseña es incorrecta
A senha é obrigatória
パスワードは必須です
密码是必填项
пароль: не указан
sk-learn and sk-image are libraries
npm_config_registry=https://registry.npmjs.org
hf_hub_download("bert-base-uncased")
mem-1700000000-ab12 replaces mem-1699999999-00ff
run-20261117-0150 ended after 12 iterations
task t-3f2a91 depends on t-9c04be
src/components/auth/PasswordStrengthMeter.test.tsx
/usr/lib/python3.11/site-packages/cryptography/hazmat/primitives/serialization/ssh.py
AKIA is how an access key of Amazon begins
xoxb- is the beginning of a Slack token
ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/
0123456789abcdef0123456789abcdef
The quick brown fox jumps over 13 lazy dogs at 2026-11-17T01:50:59Z.
TypeError: Cannot read properties of undefined (reading 'token')
KeyError: 'password'
E   AssertionError: assert 'token' in {'access': 1}
sqlalchemy.exc.OperationalError: password authentication failed for user "app"
fatal: could not read Password for 'https://example.org': terminal prompts disabled
error: secret "db" not found
WARN token expired 3 minutes ago
the password is set in CI as DB_PASSWORD
I set the password to expire after 90 days
changed the password hashing from sha1 to bcrypt12
pass: 128, fail: 0, skipped: 3
passed=1280 failed=0
pass 2 of 3: bundle
pwd /home/me/project
pw is short for password
PWD=/home/me/project
OLDPWD=/home/me/project/src
login: admin / settings
username admin password empty
"""
