"""Documented token formats of providers, as templates; a development half and a held-out half.

`{A36}` stands for 36 random characters of a class (see `CLASSES`). A `|` inside a prefix is removed, so that no scanner
takes a template for a token.
"""

from __future__ import annotations

import re
import string

from tests.faults.secret_corpus import ANY, BASE64, BIG, DIGITS, HEX, SMALL, Maker

Format = tuple[str, str, str]
"""Provider, name of its environment variable, template of the token."""

CLASSES = {
    "A": ANY,
    "a": SMALL + DIGITS,
    "U": BIG + DIGITS,
    "H": HEX,
    "X": HEX.upper(),
    "D": DIGITS,
    "B": BASE64,
    "S": ANY + "-_",
    "L": string.ascii_letters,
    "Z": BIG + "234567",
}
UUID = "{H8}-{H4}-4{H3}-a{H3}-{H12}"


def fill(template: str, make: Maker) -> str:
    """Return a token made up by a template."""
    template = template.replace("{uuid}", UUID).replace("|", "")
    return re.sub(r"\{(\w)(\d+)\}", lambda match: make.word(CLASSES[match[1]], int(match[2])), template)


def _table(text: str) -> tuple[Format, ...]:
    rows = (line.split() for line in text.strip().split("\n"))
    return tuple((provider.replace("_", " "), name, template.replace("\\s", " ")) for provider, name, template in rows)


ORDINARY_DEV = _table(r"""
AWS AWS_ACCESS_KEY_ID AK|IA{Z16}
AWS AWS_SECRET_ACCESS_KEY {B40}
GitHub GITHUB_TOKEN gh|p_{A36}
GitHub GH_TOKEN github|_pat_{A22}_{A59}
GitLab GITLAB_TOKEN gl|pat-{S20}
OpenAI OPENAI_API_KEY sk-|proj-{S74}T3Blbk|FJ{S74}
Anthropic ANTHROPIC_API_KEY sk-|ant-api03-{S93}AA
Mistral MISTRAL_API_KEY {A32}
crates.io CARGO_REGISTRY_TOKEN ci|o{A32}
Discord DISCORD_WEBHOOK_URL https://discord|.com/api/webhooks/{D18}/{S68}
Mailgun MAILGUN_API_KEY key|-{H32}
Mailgun MAILGUN_SENDING_KEY {H32}-{H8}-{H8}
Google GOOGLE_API_KEY AI|za{S35}
Slack SLACK_BOT_TOKEN xo|xb-{D12}-{D12}-{A24}
Stripe STRIPE_SECRET_KEY sk|_live_{A24}
npm NPM_TOKEN np|m_{A36}
PyPI PYPI_TOKEN py|pi-AgEIcHlwaS5vcmc{S130}
SendGrid SENDGRID_API_KEY S|G.{S22}.{S43}
Twilio TWILIO_AUTH_TOKEN {H32}
Hugging_Face HF_TOKEN h|f_{L34}
Groq GROQ_API_KEY gs|k_{A52}
DeepSeek DEEPSEEK_API_KEY sk|-{H32}
xAI XAI_API_KEY xa|i-{A80}
Vercel VERCEL_TOKEN {A24}
Datadog DD_API_KEY {H32}
Datadog DD_APP_KEY {H40}
Cloudflare CLOUDFLARE_API_TOKEN {S40}
DigitalOcean DIGITALOCEAN_TOKEN do|p_v1_{H64}
Sentry SENTRY_AUTH_TOKEN sntry|u_{H64}
Supabase SUPABASE_ACCESS_TOKEN sb|p_{H40}
PlanetScale PLANETSCALE_TOKEN psca|le_tkn_{S43}
Telegram TELEGRAM_BOT_TOKEN {D10}:AA{S33}
Azure AZURE_CLIENT_SECRET {A3}8Q|~{S34}
""")

ORDINARY_HELD_OUT = _table(r"""
AWS AWS_SESSION_ID AS|IA{Z16}
AWS AWS_BEARER_TOKEN_BEDROCK AB|SK{B124}
GitHub GITHUB_APP_TOKEN gh|s_{A36}
GitHub GITHUB_OAUTH gh|o_{A36}
GitLab GITLAB_DEPLOY_TOKEN gl|dt-{S20}
OpenAI OPENAI_ADMIN_KEY sk|-admin-{S58}T3Blbk|FJ{S58}
OpenRouter OPENROUTER_API_KEY sk|-or-v1-{H64}
Perplexity PERPLEXITY_API_KEY pp|lx-{A48}
Replicate REPLICATE_API_TOKEN r|8_{A37}
Google GOOGLE_CLIENT_SECRET GOC|SPX-{S28}
Google GCP_PRIVATE_KEY_ID {H40}
Slack SLACK_APP_TOKEN xa|pp-1-A{U10}-{D13}-{H64}
Slack SLACK_WEBHOOK https://hooks.sla|ck.com/services/T{U10}/B{U10}/{A24}
Stripe STRIPE_WEBHOOK_SECRET whs|ec_{A32}
Docker DOCKER_PAT dckr|_pat_{S27}
Databricks DATABRICKS_TOKEN da|pi{H32}
Vault VAULT_TOKEN hv|s.{S92}
Atlassian ATLASSIAN_API_TOKEN ATA|TT3xFfGF0{S176}={X8}
Linear LINEAR_API_KEY li|n_api_{A40}
Notion NOTION_TOKEN nt|n_{D11}{A35}
Shopify SHOPIFY_ADMIN_TOKEN shp|at_{H32}
Grafana GRAFANA_TOKEN gls|a_{A32}_{H8}
New_Relic NEW_RELIC_API_KEY NR|AK-{U27}
Algolia ALGOLIA_ADMIN_KEY {H32}
Together TOGETHER_API_KEY {H64}
Heroku HEROKU_API_KEY HR|KU-AA{S58}
Postman POSTMAN_API_KEY PM|AK-{H24}-{H34}
Airtable AIRTABLE_TOKEN pa|t{A14}.{H64}
Doppler DOPPLER_TOKEN dp.|st.dev.{A43}
Fastly FASTLY_API_TOKEN {S32}
PagerDuty PAGERDUTY_TOKEN u+{A18}
Mailchimp MAILCHIMP_API_KEY {H32}-us14
Square SQUARE_ACCESS_TOKEN EA|AA{S60}
""")

HARD_DEV = _table(r"""
Bitbucket BITBUCKET_APP_PASSWORD AT|BB{A32}
Bitbucket BITBUCKET_TOKEN ATC|TT3xFfGN0{S160}={X8}
1Password OP_SERVICE_ACCOUNT_TOKEN op|s_eyJ{A260}
1Password OP_SECRET_KEY A|3-{U6}-{U11}-{U5}-{U5}-{U5}
Fly FLY_API_TOKEN fo|1_{S43}
Fly FLY_ACCESS_TOKEN FlyV1\sfm|1r_{B200}
Netlify NETLIFY_AUTH_TOKEN nf|p_{A36}
Cohere CO_API_KEY {A40}
Cerebras CEREBRAS_API_KEY cs|k-{a48}
Voyage VOYAGE_API_KEY pa|-{S43}
Jina JINA_API_KEY jin|a_{H32}{A28}
Okta OKTA_API_TOKEN 00{S40}
Azure_DevOps AZURE_DEVOPS_EXT_PAT {a52}
Azure AZURE_OPENAI_API_KEY {A76}AC|DB{A4}
Snyk SNYK_TOKEN {uuid}
Resend RESEND_API_KEY re|_{A8}_{A24}
Tailscale TS_AUTHKEY ts|key-auth-{A12}CNTRL-{A32}
ElevenLabs ELEVENLABS_API_KEY sk|_{H48}
Deepgram DEEPGRAM_API_KEY {H40}
Langfuse LANGFUSE_SECRET_KEY sk|-lf-{uuid}
PostHog POSTHOG_PERSONAL_API_KEY ph|x_{A43}
Neon NEON_API_KEY nap|i_{a64}
Render RENDER_API_KEY rn|d_{A28}
CircleCI CIRCLE_TOKEN CCI|PAT_{A22}_{H40}
Buildkite BUILDKITE_AGENT_TOKEN bk|ua_{H40}
SonarQube SONAR_TOKEN sq|p_{H40}
Mapbox MAPBOX_SECRET sk|.eyJ{A60}.{S22}
Dropbox DROPBOX_TOKEN s|l.{S135}
Contentful CONTENTFUL_MANAGEMENT_TOKEN CFP|AT-{S43}
Asana ASANA_PAT 2/{D16}/{D16}:{H32}
""")

HARD_HELD_OUT = _table(r"""
Trello TRELLO_TOKEN AT|TA{H64}{X8}
Alibaba ALIBABA_ACCESS_KEY LT|AI5t{A20}
Scaleway SCW_SECRET_KEY {uuid}
Brevo BREVO_API_KEY xkey|sib-{H64}-{A16}
Dynatrace DT_API_TOKEN dt|0c01.{Z24}.{Z64}
Duffel DUFFEL_TOKEN duf|fel_live_{S43}
Typeform TYPEFORM_TOKEN tf|p_{A40}_{A18}
Intercom INTERCOM_ACCESS_TOKEN {S60}
Prefect PREFECT_API_KEY pn|u_{A36}
Infracost INFRACOST_API_KEY ic|o-{A32}
ReadMe README_API_KEY rd|me_{a70}
EasyPost EASYPOST_API_KEY EZ|AK{A54}
Shippo SHIPPO_TOKEN ship|po_live_{H40}
MaxMind MAXMIND_LICENSE_KEY {A6}_{A29}_m|mk
OpenShift OC_TOKEN sha|256~{S43}
Harness HARNESS_API_KEY pa|t.{S22}.{A24}.{A20}
Artifactory ARTIFACTORY_API_KEY AK|Cp{A69}
Clojars CLOJARS_TOKEN CLO|JARS_{H60}
Pulumi PULUMI_ACCESS_TOKEN pu|l-{H40}
Codecov CODECOV_TOKEN {uuid}
AssemblyAI ASSEMBLYAI_API_KEY {H32}
Modal MODAL_TOKEN_SECRET as|-{A22}
RunPod RUNPOD_API_KEY rp|a_{U40}
E2B E2B_API_KEY e2|b_{H40}
Brave BRAVE_API_KEY BS|A{S28}
Serper SERPER_API_KEY {H40}
Upstash UPSTASH_REDIS_REST_TOKEN A{A54}==
LaunchDarkly LAUNCHDARKLY_SDK_KEY sd|k-{uuid}
Honeycomb HONEYCOMB_API_KEY hca|ik_{a58}
Ngrok NGROK_AUTHTOKEN 2{A26}_{A20}
""")
