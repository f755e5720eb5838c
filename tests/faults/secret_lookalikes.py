"""Harmless lines that look like secrets, a development half and a held-out half.

Templates are those of `secret_formats`; each line with random characters is made three times.
"""

from __future__ import annotations

from tests.faults.secret_corpus import Maker
from tests.faults.secret_formats import fill

COPIES = 3
"""Number of lines made of each template with random characters."""

DEV = r"""
commit {H40}
Author: Bot <bot@example.com> {H40} {D10} +0100
fixed in {H40}, see the log
git checkout {H40} && make
https://git.example.com/o/r/blob/{H40}/src/key.py#L12-L40
diff --git a/keys/{H8}.txt b/keys/{H8}.txt
index {H40}..{H40} 100644
"resolved": "https://registry.npmjs.org/token/-/token-1.2.3.tgz#{H40}",
"integrity": "sha512-{B86}==",
  integrity sha512-{B86}==
key-encoding@1.0.1: sha512-{B86}==
secretstorage = "sha256:{H64}"
    {{file = "keyring-25.2.1-py3-none-any.whl", hash = "sha256:{H64}"}},
golang.org/x/oauth2 v0.20.0 h1:{B43}=
<script src="x.js" integrity="sha384-{B64}" crossorigin="anonymous"></script>
The session id is {uuid}
run_id={uuid} attempt=2
"id": "msg_01{A22}", "type": "message"
"tool_use_id": "toolu_01{A22}"
"id": "call_{A24}", "function": {{"name": "read_key"}}
"id": "chatcmpl-{A29}",
request id req_011{A21} failed with 529
task t-{H6} took the key from mem-{D10}-{H4}
run-20261117-{D4} wrote {H64}
memory mem-{D10}-{H4} says: the token is short-lived
content hash {H64} of notes.md
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{B43} deploy-key@example.com
SHA256:{B43} deploy@example.com (ED25519)
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{B200}
-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A{B64}
-----BEGIN CERTIFICATE-----\nMIID{B60}\n{B64}\n{B40}\n-----END CERTIFICATE-----
AKIAIOSFODNN7EXAMPLE is the key id that the documentation of AWS uses
aws_access_key_id = AKIAIOSFODNN7EXAMPLE
OPENAI_API_KEY=sk-...
export ANTHROPIC_API_KEY="sk-ant-..."
api_key="your_api_key_here"
api_key = "<YOUR_API_KEY>"
token: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
token_count = {D3}
max_output_tokens: {D5}
"usage": {{"input_tokens": {D5}, "output_tokens": {D4}}}
password = get_password()
password = getpass.getpass("Password: ")
self.api_key = api_key or os.getenv("MISTRAL_API_KEY")
const apiKey = process.env.COHERE_API_KEY!
mistral-large-2411 and mistral-small-2503 need a key
The Netlify build of {H40} is the key to the release
cohere.embed-english-v3.0 returns 1024 numbers
voyage-code-3 beats voyage-3.5-lite on keys
jina-embeddings-v3 accepts 8192 tokens
fly deploy --image registry.fly.io/app:deployment-01{U24}
bitbucket-pipelines.yml uses key cache-{H40}
1Password CLI 2.30.0 reads op://vault/item/password
https://example.com/search?key=name&order=asc&page=2
https://example.com/list?sort_key=created_at&token_type=bearer
https://youtube.com/watch?v={S11}&t=42
https://docs.example.com/document/d/{S44}/edit
ETag: "{H32}"
x-amz-request-id: {U16}
x-amz-id-2: {B76}
docker.io/library/postgres@sha256:{H64}
sha256:{H64} extracting
cache key: deps-linux-{H64}
Cache restored from key: node-modules-{H64}
primary key violation on tasks_pkey id={uuid}
traceparent: 00-{H32}-{H16}-01
e.exports=function(e,t){{return n(e)||r(e,t)||o(e,t)||i()}},i=n(4242)
!function(e){{var t={{}};function n(r){{if(t[r])return t[r].exports}}}}([function(e,t)]);
static/js/main.{H8}.chunk.js
assets/index-{A8}.css 12.3 kB
Qm{A44} pinned
0x{H40} is the contract
node_modules/.pnpm/jsonwebtoken@9.0.2/node_modules/jsonwebtoken/verify.js:{D3}
/usr/lib/x86_64-linux-gnu/libgnome-keyring.so.0.2.0
com.example.security.TokenAuthenticationFilterV2Configuration
src/components/auth/PasswordStrength2Meter.test.tsx:{D3}
test_password_reset_token_expires_after_24_hours PASSED
assert hash_password("a") == "{H64}"
sha1sum: {H40}  key.txt
md5 of the secret file is {H32}
UUID for the API key row: {uuid}
apiKeyId: {uuid}
"key_id": {D6}, "token_id": {D8}
kubectl get secret app-{a10} -o yaml
pod/api-key-service-{a9}-{a5} Running
image: ghcr.io/o/token-service:{H40}
machine learning login page, password field, 2 tests
machine: n2-standard-16 login node password-less
Authorization: Bearer YOUR_TOKEN
Authorization: Bearer ${{API_TOKEN}}
-H "X-API-Key: $KEY"
secret: ${{{{ secrets.DEPLOY_KEY_2024 }}}}
AWS_SECRET_ACCESS_KEY: ${{AWS_SECRET_ACCESS_KEY}}
password=$(openssl rand -base64 24)
The base64 of "hello world" is aGVsbG8gd29ybGQ=
echo aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0Cg== | base64 -d
eyJhbGciOiJIUzI1NiJ9 is the header of a JWT
"nonce": "{B22}==", "key_version": 3
public_key: "{B43}="
pk_live_{A24}
phc_{A43} is the public key of PostHog
"gitHead": "{H40}",
"_nodeVersion": "20.11.1", "_hasShrinkwrap": false, "shasum": "{H40}"
Change-Id: I{H40}
boundary=----WebKitFormBoundary{A16}
Sec-WebSocket-Key: {B22}==
"""

HELD_OUT = r"""
Merge commit '{H40}' into release
Reverts {H40} because the token test was flaky
From {H40} Mon Sep 17 00:00:00 2001
git bisect bad {H40}
pin actions/checkout@{H40} # v4.1.1
uses: docker/login-action@{H40}
submodule vendor/keyring at {H40}
"rev": "{H40}", "narHash": "sha256-{B43}=",
checksum = "{H64}"
  version "3.1.0"\n  resolved "https://registry.yarnpkg.com/passport/-/passport-3.1.0.tgz#{H40}"
cryptography==42.0.5 --hash=sha256:{H64}
sum: h1:{B43}=
  sha256 "{H64}"
SRI: sha256-{B43}=
oid sha256:{H64}
size {D8}
trace id {H32}, span {H16}, token count {D4}
correlation_id: {uuid}
session {uuid} ended
"sessionId":"{uuid}","parentUuid":"{uuid}"
"uuid":"{uuid}","timestamp":"2026-11-17T01:50:59.123Z"
"requestId":"req_01{A22}"
"id":"resp_{H48}","object":"response"
"id":"item_{H24}", "type":"reasoning"
thread_{A24} and asst_{A24} were deleted
evt_1{A23} was delivered to we_1{A23}
customer cus_{A14} has subscription sub_1{A23}
price_1{A23} is monthly
dpl_{A28} is READY
prj_{A28} belongs to team_{A24}
arn:aws:iam::{D12}:role/key-rotation
arn:aws:kms:eu-west-1:{D12}:key/{uuid}
arn:aws:secretsmanager:eu-west-1:{D12}:secret:prod/db-{A6}
i-0{H16} is in vpc-0{H16}, key pair ci-2024
ami-0{H16}
s3://bucket/keys/{H32}/part-{D5}.parquet
VersionId: {S32}
sg-0{H16} allows 5432
gs://bucket/{uuid}/token.json
projects/{D12}/secrets/db-password/versions/3
vault kv get secret/data/app/db#password
op read op://prod/stripe/secret-key
pass show work/api-key
keychain item com.example.token.v2
key_fingerprint: {H2}:{H2}:{H2}:{H2}:{H2}:{H2}:{H2}:{H2}
gpg: using RSA key {X40}
Key fingerprint = {X4} {X4} {X4} {X4} {X4}  {X4} {X4} {X4} {X4} {X4}
pub   rsa4096/{X16} 2024-01-01
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC{B180} ci@example.com
ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABB{B86}=
known_hosts: |1|{B27}=|{B27}= ssh-ed25519
-----BEGIN PGP SIGNATURE-----\n\niQIzBAABCAAdFiEE{B48}\n{B64}\n-----END PGP SIGNATURE-----
background: url(data:font/woff2;base64,d09GMgABAAAAA{B160})
//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXX0=
"mappings": "AAAA,SAASA,EAAOC,GACd,OAAOA,CACT"
const t=Object.freeze({{__proto__:null,key:"a1b2",tokenType:"Bearer"}});
webpack:///./src/token.js?{H4}
chunk-{U8}.js | 145.21 kB
_next/static/{S21}/_buildManifest.js
sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
sk-ant-api03-... goes into the environment
STRIPE_SECRET_KEY=sk_test_...
TOKEN=REPLACE_ME
password: changeme123
DB_PASSWORD=example
api_key: "dummy-key-for-tests"
secret_key_base: <%= ENV["SECRET_KEY_BASE"] %>
password: {{{{ lookup('env', 'DB_PASSWORD') }}}}
token = settings.TOKEN_PREFIX + user.id
if token.type == TokenType.NAME and token.value == "key2":
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
model = "claude-3-5-sonnet-20241022"  # key model
gpt-4o-mini-2024-07-18 costs less per token
text-embedding-3-large has 3072 dimensions
deepseek-r1-distill-llama-70b needs no key
nvidia/llama-3.1-nemotron-70b-instruct
secret santa list for 2026, 24 people
a password of 16 characters, 4 classes and 2 symbols
Bearer authentication with RFC6750 tokens
basic auth is documented in RFC7617
OAuth2PasswordBearer(tokenUrl="token")
JWT_ALGORITHM=RS256
ACCESS_TOKEN_EXPIRE_MINUTES=11520
SESSION_COOKIE_NAME=ralph_session_v2
csrf_token = generate_csrf_token(session)
PRIVATE_KEY_FILE=/etc/ssl/private/app-2024.key
KEYCLOAK_REALM=production-2024
key = f"user:{{user_id}}:v2"
redis> GET cache:user:{D6}:{H32}
cacheKey=products-{H40}
idempotency-key: {uuid}
partition key {uuid} is hot
dedup_key={H64}
lookup by key {H64} took 3 ms
hash of the API key file: {H64}
blake2b {H128}
bloom filter key 0x{H16}
ERROR 1062 (23000): Duplicate entry '{uuid}' for key 'users.PRIMARY'
KeyError: '{uuid}'
AssertionError: '{H40}' != '{H40}'
E   assert '{H64}' == '{H64}'
at TokenService.validate (/app/dist/token.service.js:{D3}:{D2})
at com.example.TokenFilter$$EnhancerBySpringCGLIB$${H8}.doFilter(<generated>)
0x00007f{H10} in _PyEval_EvalFrameDefault ()
[2026-11-17 10:11:12] token bucket refilled: 4096 -> 8192
tests/test_api_key_rotation_2024.py::TestApiKeyV2::test_rotates[1] PASSED
zip entry keys/2024-11-17T10-11-12Z.json.gz crc32 {H8}
https://example.com/reset?token_hint=1&lang=en
https://example.com/?key=products&sort=price-asc
https://maps.example.com/?ll=52.520008,13.404954&z=17&key=map
https://cdn.example.com/{H64}/app.js
magnet:?xt=urn:btih:{H40}
ipfs://bafybei{a52}
bc1q{a38}
bundle exec rake db:migrate VERSION=20241117101112
CFBundleIdentifier com.example.KeyVault2
urn:uuid:{uuid}
Message-ID: <{A24}@mail.example.com>
DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; bh={B43}=;
v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQ{B100}
google-site-verification={S43}
Set-Cookie: lang=en; Max-Age=31536000
"""


def lookalikes(held_out: bool = False) -> list[str]:
    """Return harmless lines in formats like those of secrets."""
    make = Maker(80_002 if held_out else 80_001)
    templates = (HELD_OUT if held_out else DEV).strip().split("\n")
    made = []
    for template in templates * COPIES:
        line = template.replace("{{", "\0").replace("}}", "\1").replace("\\n", "\n")
        made.append(fill(line, make).replace("\0", "{").replace("\1", "}"))
    return list(dict.fromkeys(made))
