# ruff: noqa: E501
# fmt: off
"""Rules of gitleaks, converted by `requirements/gitleaks.py`; do not edit.

Copyright (c) 2019 Zachary Rice, MIT license: see LICENSE.gitleaks in this directory.
"""

RULES: tuple[tuple[tuple[str, ...], str, str, float], ...] = (
    (('a3-',), '', 'A3-[A-Z0-9]{6}-(?:(?:[A-Z0-9]{11})|(?:[A-Z0-9]{6}-[A-Z0-9]{5}))-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}', 3.8),  # 1password-secret-key
    (('ops_',), '', 'ops_eyJ[a-zA-Z0-9+/]{250,400}={0,3}', 4.0),  # 1password-service-account-token
    (('adafruit',), '(?:adafruit)', '(?i:(?:[a-z0-9_-]{32}))', 0.0),  # adafruit-api-key
    (('p8e-',), '', '(?:p8e-(?i:[a-z0-9]{32}))', 2.0),  # adobe-client-secret
    (('age-secret-key-1',), '', 'AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}', 0.0),  # age-secret-key
    (('airtable',), '(?:airtable)', '(?i:(?:[a-z0-9]{17}))', 0.0),  # airtable-api-key
    (('airtable',), '', '(?:pat[A-Za-z0-9]{14}\\.[a-f0-9]{64})', 0.0),  # airtable-personnal-access-token
    (('algolia',), '(?:algolia)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # algolia-api-key
    (('ltai',), '', '(?:LTAI(?i:[a-z0-9]{20}))', 2.0),  # alibaba-access-key-id
    (('alibaba',), '(?:alibaba)', '(?i:(?:[a-z0-9]{30}))', 2.0),  # alibaba-secret-key
    (('sk-ant-admin01',), '', '(?:sk-ant-admin01-[a-zA-Z0-9_\\-]{93}AA)', 0.0),  # anthropic-admin-api-key
    (('sk-ant-api03',), '', '(?:sk-ant-api03-[a-zA-Z0-9_\\-]{93}AA)', 0.0),  # anthropic-api-key
    (('akcp',), '', 'AKCp[A-Za-z0-9]{69}', 4.5),  # artifactory-api-key
    (('cmvmd',), '', 'cmVmd[A-Za-z0-9]{59}', 4.5),  # artifactory-reference-token
    (('asana',), '(?:asana)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # asana-client-secret
    (('atlassian', 'confluence', 'jira', 'atatt3'), '(?:(?-i:ATLASSIAN|[Aa]tlassian)|(?-i:CONFLUENCE|[Cc]onfluence)|(?-i:JIRA|[Jj]ira))', '(?i:(?:[a-z0-9]{20}[a-f0-9]{4}))', 3.5),  # atlassian-api-token
    (('sc_', 'ext_', 'scauth_', 'authress_'), '', '(?:(?:sc|ext|scauth|authress)_(?i:[a-z0-9]{5,30}\\.[a-z0-9]{4,6}\\.(?-i:acc)[_-][a-z0-9-]{10,32}\\.[a-z0-9+/_=-]{30,120}))', 2.0),  # authress-service-client-access-key
    (('absk',), '', '(?:ABSK[A-Za-z0-9+/]{109,269}={0,2})', 3.0),  # aws-amazon-bedrock-api-key-long-lived
    (('bedrock-api-key-',), '', 'bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t', 3.0),  # aws-amazon-bedrock-api-key-short-lived
    (('beamer',), '(?:beamer)', '(?i:(?:b_[a-z0-9=_\\-]{44}))', 0.0),  # beamer-api-token
    (('bitbucket',), '(?:bitbucket)', '(?i:(?:[a-z0-9=_\\-]{64}))', 0.0),  # bitbucket-client-secret
    (('bittrex',), '(?:bittrex)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # bittrex-access-key
    (('bittrex',), '(?:bittrex)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # bittrex-secret-key
    (('meraki',), '(?:(?-i:[Mm]eraki|MERAKI))', '(?:[0-9a-f]{40})', 3.0),  # cisco-meraki-api-key
    (('4b1d',), '', '(?:4b1d[A-Za-z0-9]{38})', 3.0),  # clickhouse-cloud-api-secret-key
    (('clojars_',), '', '(?i:CLOJARS_[a-z0-9]{60})', 2.0),  # clojars-api-token
    (('cloudflare',), '(?:cloudflare)', '(?i:(?:[a-z0-9_-]{40}))', 2.0),  # cloudflare-api-key
    (('cloudflare',), '(?:cloudflare)', '(?i:(?:[a-f0-9]{37}))', 2.0),  # cloudflare-global-api-key
    (('cloudflare', 'v1.0-'), '', '(?:v1\\.0-[a-f0-9]{24}-[a-f0-9]{146})', 2.0),  # cloudflare-origin-ca-key
    (('codecov',), '(?:codecov)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # codecov-access-token
    (('cohere', 'co_api_key'), '(?:cohere|CO_API_KEY)', '(?:[a-zA-Z0-9]{40})', 4.0),  # cohere-api-token
    (('coinbase',), '(?:coinbase)', '(?i:(?:[a-z0-9_-]{64}))', 0.0),  # coinbase-access-token
    (('confluent',), '(?:confluent)', '(?i:(?:[a-z0-9]{64}))', 0.0),  # confluent-secret-key
    (('contentful',), '(?:contentful)', '(?i:(?:[a-z0-9=_\\-]{43}))', 0.0),  # contentful-delivery-api-token
    (('dapi',), '', '(?:dapi[a-f0-9]{32}(?:-\\d)?)', 3.0),  # databricks-api-token
    (('datadog',), '(?:datadog)', '(?i:(?:[a-z0-9]{40}))', 0.0),  # datadog-access-token
    (('dnkey',), '(?:dnkey)', '(?i:(?:dnkey-[a-z0-9=_\\-]{26}-[a-z0-9=_\\-]{52}))', 0.0),  # defined-networking-api-token
    (('doo_v1_',), '', '(?:doo_v1_[a-f0-9]{64})', 3.0),  # digitalocean-access-token
    (('dop_v1_',), '', '(?:dop_v1_[a-f0-9]{64})', 3.0),  # digitalocean-pat
    (('dor_v1_',), '', '(?i:(?:dor_v1_[a-f0-9]{64}))', 0.0),  # digitalocean-refresh-token
    (('discord',), '(?:discord)', '(?i:(?:[a-f0-9]{64}))', 0.0),  # discord-api-token
    (('discord',), '(?:discord)', '(?i:(?:[a-z0-9=_\\-]{32}))', 2.0),  # discord-client-secret
    (('dp.pt.',), '', 'dp\\.pt\\.(?i:[a-z0-9]{43})', 2.0),  # doppler-api-token
    (('droneci',), '(?:droneci)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # droneci-access-token
    (('dropbox',), '(?:dropbox)', '(?i:(?:[a-z0-9]{11}(?:AAAAAAAAAA)[a-z0-9\\-_=]{43}))', 0.0),  # dropbox-long-lived-api-token
    (('dropbox',), '(?:dropbox)', '(?i:(?:sl\\.[a-z0-9\\-=_]{135}))', 0.0),  # dropbox-short-lived-api-token
    (('duffel_',), '', 'duffel_(?:test|live)_(?i:[a-z0-9_\\-=]{43})', 2.0),  # duffel-api-token
    (('dt0c01.',), '', 'dt0c01\\.(?i:[a-z0-9]{24}\\.[a-z0-9]{64})', 4.0),  # dynatrace-api-token
    (('ezak',), '', 'EZAK(?i:[a-z0-9]{54})', 2.0),  # easypost-api-token
    (('eztk',), '', 'EZTK(?i:[a-z0-9]{54})', 2.0),  # easypost-test-api-token
    (('etsy',), '(?:(?-i:ETSY|[Ee]tsy))', '(?i:(?:[a-z0-9]{24}))', 3.0),  # etsy-access-token
    (('eaam', 'eaac'), '', '(?:EAA[MC](?i:[a-z0-9]{100,400}))', 4.0),  # facebook-page-access-token
    (('facebook',), '(?:facebook)', '(?i:(?:[a-f0-9]{32}))', 3.0),  # facebook-secret
    (('fastly',), '(?:fastly)', '(?i:(?:[a-z0-9=_\\-]{32}))', 0.0),  # fastly-api-token
    (('finicity',), '(?:finicity)', '(?i:(?:[a-f0-9]{32}))', 0.0),  # finicity-api-token
    (('finicity',), '(?:finicity)', '(?i:(?:[a-z0-9]{20}))', 0.0),  # finicity-client-secret
    (('finnhub',), '(?:finnhub)', '(?i:(?:[a-z0-9]{20}))', 0.0),  # finnhub-access-token
    (('flickr',), '(?:flickr)', '(?i:(?:[a-z0-9]{32}))', 0.0),  # flickr-access-token
    (('flwseck_test',), '', 'FLWSECK_TEST-(?i:[a-h0-9]{12})', 2.0),  # flutterwave-encryption-key
    (('flwseck_test',), '', 'FLWSECK_TEST-(?i:[a-h0-9]{32}-X)', 2.0),  # flutterwave-secret-key
    (('fo1_', 'fm1', 'fm2_'), '', '(?:(?:fo1_[\\w-]{43}|fm1[ar]_[a-zA-Z0-9+\\/]{100,400}={0,3}|fm2_[a-zA-Z0-9+\\/]{100,400}={0,3}))', 4.0),  # flyio-access-token
    (('fio-u-',), '', 'fio-u-(?i:[a-z0-9\\-_=]{64})', 0.0),  # frameio-api-token
    (('freshbooks',), '(?:freshbooks)', '(?i:(?:[a-z0-9]{64}))', 0.0),  # freshbooks-access-token
    (('aiza',), '', '(?:AIza[\\w-]{35})', 4.0),  # gcp-api-key
    (('ghu_', 'ghs_'), '', '(?:ghu|ghs)_[0-9a-zA-Z]{36}', 3.0),  # github-app-token
    (('github_pat_',), '', 'github_pat_\\w{82}', 3.0),  # github-fine-grained-pat
    (('gho_',), '', 'gho_[0-9a-zA-Z]{36}', 3.0),  # github-oauth
    (('ghp_',), '', 'ghp_[0-9a-zA-Z]{36}', 3.0),  # github-pat
    (('ghr_',), '', 'ghr_[0-9a-zA-Z]{36}', 3.0),  # github-refresh-token
    (('glcbt-',), '', 'glcbt-[0-9a-zA-Z]{1,5}_[0-9a-zA-Z_-]{20}', 3.0),  # gitlab-cicd-job-token
    (('gldt-',), '', 'gldt-[0-9a-zA-Z_\\-]{20}', 3.0),  # gitlab-deploy-token
    (('glffct-',), '', 'glffct-[0-9a-zA-Z_\\-]{20}', 3.0),  # gitlab-feature-flag-client-token
    (('glft-',), '', 'glft-[0-9a-zA-Z_\\-]{20}', 3.0),  # gitlab-feed-token
    (('glimt-',), '', 'glimt-[0-9a-zA-Z_\\-]{25}', 3.0),  # gitlab-incoming-mail-token
    (('glagent-',), '', 'glagent-[0-9a-zA-Z_\\-]{50}', 3.0),  # gitlab-kubernetes-agent-token
    (('gloas-',), '', 'gloas-[0-9a-zA-Z_\\-]{64}', 3.0),  # gitlab-oauth-app-secret
    (('glpat-',), '', 'glpat-[\\w-]{20}', 3.0),  # gitlab-pat
    (('glpat-',), '', 'glpat-[0-9a-zA-Z_-]{27,300}\\.[0-9a-z]{2}[0-9a-z]{7}', 4.0),  # gitlab-pat-routable
    (('glptt-',), '', 'glptt-[0-9a-f]{40}', 3.0),  # gitlab-ptt
    (('gr1348941',), '', 'GR1348941[\\w-]{20}', 3.0),  # gitlab-rrt
    (('glrt-',), '', 'glrt-[0-9a-zA-Z_\\-]{20}', 3.0),  # gitlab-runner-authentication-token
    (('glrt-',), '', 'glrt-t\\d_[0-9a-zA-Z_\\-]{27,300}\\.[0-9a-z]{2}[0-9a-z]{7}', 4.0),  # gitlab-runner-authentication-token-routable
    (('glsoat-',), '', 'glsoat-[0-9a-zA-Z_\\-]{20}', 3.0),  # gitlab-scim-token
    (('gitter',), '(?:gitter)', '(?i:(?:[a-z0-9_-]{40}))', 0.0),  # gitter-access-token
    (('live_', 'gocardless'), '(?:gocardless)', '(?i:(?:live_(?i:[a-z0-9\\-_=]{40})))', 0.0),  # gocardless-api-token
    (('eyjrijoi',), '', '(?i:(?:eyJrIjoi[A-Za-z0-9]{70,400}={0,3}))', 3.0),  # grafana-api-key
    (('glc_',), '', '(?i:(?:glc_[A-Za-z0-9+/]{32,400}={0,3}))', 3.0),  # grafana-cloud-api-token
    (('glsa_',), '', '(?i:(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}))', 3.0),  # grafana-service-account-token
    (('pat.', 'sat.'), '', '(?:pat|sat)\\.[a-zA-Z0-9_-]{22}\\.[a-zA-Z0-9]{24}\\.[a-zA-Z0-9]{20}', 0.0),  # harness-api-key
    (('atlasv1',), '', '(?i:[a-z0-9]{14}\\.(?-i:atlasv1)\\.[a-z0-9\\-_=]{60,70})', 3.5),  # hashicorp-tf-api-token
    (('heroku',), '(?:heroku)', '(?i:(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))', 0.0),  # heroku-api-key
    (('hrku-aa',), '', '(?:(?:HRKU-AA[0-9a-zA-Z_-]{58}))', 4.0),  # heroku-api-key-v2
    (('hubspot',), '(?:hubspot)', '(?i:(?:[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}))', 0.0),  # hubspot-api-key
    (('api_org_',), '', '(?:api_org_(?i:[a-z]{34}))', 2.0),  # huggingface-organization-api-token
    (('ico-',), '', '(?:ico-[a-zA-Z0-9]{32})', 3.0),  # infracost-api-token
    (('intercom',), '(?:intercom)', '(?i:(?:[a-z0-9=_\\-]{60}))', 0.0),  # intercom-api-key
    (('intra', 's-s4t2ud-', 's-s4t2af-'), '', '(?:s-s4t2(?:ud|af)-(?i:[abcdef0123456789]{64}))', 3.0),  # intra42-client-secret
    (('jfrog', 'artifactory', 'bintray', 'xray'), '(?:jfrog|artifactory|bintray|xray)', '(?i:(?:[a-z0-9]{73}))', 0.0),  # jfrog-api-key
    (('jfrog', 'artifactory', 'bintray', 'xray'), '(?:jfrog|artifactory|bintray|xray)', '(?i:(?:[a-z0-9]{64}))', 0.0),  # jfrog-identity-token
    (('kraken',), '(?:kraken)', '(?i:(?:[a-z0-9\\/=_\\+\\-]{80,90}))', 0.0),  # kraken-access-token
    (('kucoin',), '(?:kucoin)', '(?i:(?:[a-f0-9]{24}))', 0.0),  # kucoin-access-token
    (('kucoin',), '(?:kucoin)', '(?i:(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))', 0.0),  # kucoin-secret-key
    (('launchdarkly',), '(?:launchdarkly)', '(?i:(?:[a-z0-9=_\\-]{40}))', 0.0),  # launchdarkly-access-token
    (('lin_api_',), '', 'lin_api_(?i:[a-z0-9]{40})', 2.0),  # linear-api-key
    (('linear',), '(?:linear)', '(?i:(?:[a-f0-9]{32}))', 2.0),  # linear-client-secret
    (('linkedin', 'linked_in', 'linked-in'), '(?:linked[_-]?in)', '(?i:(?:[a-z0-9]{16}))', 2.0),  # linkedin-client-secret
    (('test_', 'live_'), '(?:lob)', '(?i:(?:(?:live|test)_[a-f0-9]{35}))', 0.0),  # lob-api-key
    (('looker',), '(?:looker)', '(?i:(?:[a-z0-9]{24}))', 0.0),  # looker-client-secret
    (('mailchimp',), '(?:MailchimpSDK.initialize|mailchimp)', '(?i:(?:[a-f0-9]{32}-us\\d\\d))', 0.0),  # mailchimp-api-key
    (('mailgun',), '(?:mailgun)', '(?i:(?:key-[a-f0-9]{32}))', 0.0),  # mailgun-private-api-token
    (('mailgun',), '(?:mailgun)', '(?i:(?:[a-h0-9]{32}-[a-h0-9]{8}-[a-h0-9]{8}))', 0.0),  # mailgun-signing-key
    (('mapbox',), '(?:mapbox)', '(?i:(?:pk\\.[a-z0-9]{60}\\.[a-z0-9]{22}))', 0.0),  # mapbox-api-token
    (('mattermost',), '(?:mattermost)', '(?i:(?:[a-z0-9]{26}))', 0.0),  # mattermost-access-token
    (('_mmk',), '', '(?:[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)', 4.0),  # maxmind-license-key
    (('messagebird', 'message-bird', 'message_bird'), '(?:message[_-]?bird)', '(?i:(?:[a-z0-9]{25}))', 0.0),  # messagebird-api-token
    (('webhook.office.com', 'webhookb2', 'incomingwebhook'), '', 'https://[a-z0-9]{1,400}\\.webhook\\.office\\.com/webhookb2/[a-z0-9]{8}-(?:[a-z0-9]{4}-){3}[a-z0-9]{12}@[a-z0-9]{8}-(?:[a-z0-9]{4}-){3}[a-z0-9]{12}/IncomingWebhook/[a-z0-9]{32}/[a-z0-9]{8}-(?:[a-z0-9]{4}-){3}[a-z0-9]{12}', 0.0),  # microsoft-teams-webhook
    (('netlify',), '(?:netlify)', '(?i:(?:[a-z0-9=_\\-]{40,46}))', 0.0),  # netlify-access-token
    (('nrjs-',), '(?:new-relic|newrelic|new_relic)', '(?i:(?:NRJS-[a-f0-9]{19}))', 0.0),  # new-relic-browser-api-token
    (('nrii-',), '(?:new-relic|newrelic|new_relic)', '(?i:(?:NRII-[a-z0-9-]{32}))', 0.0),  # new-relic-insert-key
    (('nrak',), '(?:new-relic|newrelic|new_relic)', '(?i:(?:NRAK-[a-z0-9]{27}))', 0.0),  # new-relic-user-api-key
    (('ntn_',), '', '(?:ntn_[0-9]{11}[A-Za-z0-9]{32}[A-Za-z0-9]{3})', 4.0),  # notion-api-token
    (('npm_',), '', '(?i:(?:npm_[a-z0-9]{36}))', 2.0),  # npm-access-token
    (('nytimes', 'new-york-times', 'newyorktimes'), '(?:nytimes|new-york-times,|newyorktimes)', '(?i:(?:[a-z0-9=_\\-]{32}))', 0.0),  # nytimes-access-token
    (('api-',), '', '(?:API-[A-Z0-9]{26})', 3.0),  # octopus-deploy-api-key
    (('okta',), '(?:(?-i:[Oo]kta|OKTA))', '(?:00[\\w=\\-]{40})', 4.0),  # okta-access-token
    (('t3blbkfj',), '', '(?:sk-(?:proj|svcacct|admin)-(?:[A-Za-z0-9_-]{74}|[A-Za-z0-9_-]{58})T3BlbkFJ(?:[A-Za-z0-9_-]{74}|[A-Za-z0-9_-]{58})\\b|sk-[a-zA-Z0-9]{20}T3BlbkFJ[a-zA-Z0-9]{20})', 3.0),  # openai-api-key
    (('sha256~',), '', '(?:sha256~[\\w-]{43})', 3.5),  # openshift-user-token
    (('plaid',), '(?:plaid)', '(?i:(?:access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))', 0.0),  # plaid-api-token
    (('plaid',), '(?:plaid)', '(?i:(?:[a-z0-9]{30}))', 3.5),  # plaid-secret-key
    (('pscale_tkn_',), '', '(?:pscale_tkn_(?i:[\\w=\\.-]{32,64}))', 3.0),  # planetscale-api-token
    (('pscale_oauth_',), '', '(?:pscale_oauth_[\\w=\\.-]{32,64})', 3.0),  # planetscale-oauth-token
    (('pscale_pw_',), '', '(?i:(?:pscale_pw_(?i:[\\w=\\.-]{32,64})))', 3.0),  # planetscale-password
    (('pmak-',), '', '(?:PMAK-(?i:[a-f0-9]{24}\\-[a-f0-9]{34}))', 3.0),  # postman-api-token
    (('pnu_',), '', '(?:pnu_[a-zA-Z0-9]{36})', 2.0),  # prefect-api-token
    (('privateai', 'private_ai', 'private-ai'), '(?:private[_-]?ai)', '(?:[a-z0-9]{32})', 3.0),  # privateai-api-token
    (('pul-',), '', '(?:pul-[a-f0-9]{40})', 2.0),  # pulumi-api-token
    (('pypi-ageichlwas5vcmc',), '', 'pypi-AgEIcHlwaS5vcmc[\\w-]{50,1000}', 3.0),  # pypi-upload-token
    (('rapidapi',), '(?:rapidapi)', '(?i:(?:[a-z0-9_-]{50}))', 0.0),  # rapidapi-access-token
    (('rdme_',), '', '(?:rdme_[a-z0-9]{70})', 2.0),  # readme-api-token
    (('rubygems_',), '', '(?:rubygems_[a-f0-9]{48})', 2.0),  # rubygems-api-token
    (('tk-us-',), '', '(?:tk-us-[\\w-]{48})', 2.0),  # scalingo-api-token
    (('sendbird',), '(?:sendbird)', '(?i:(?:[a-f0-9]{40}))', 0.0),  # sendbird-access-token
    (('sg.',), '', '(?:SG\\.(?i:[a-z0-9=_\\-\\.]{66}))', 2.0),  # sendgrid-api-token
    (('xkeysib-',), '', '(?:xkeysib-[a-f0-9]{64}\\-(?i:[a-z0-9]{16}))', 2.0),  # sendinblue-api-token
    (('sentry',), '(?:sentry)', '(?i:(?:[a-f0-9]{64}))', 3.0),  # sentry-access-token
    (('sntryu_',), '', '(?:sntryu_[a-f0-9]{64})', 3.5),  # sentry-user-token
    (('sm_aat',), '', '(?:sm_aat_[a-zA-Z0-9]{16})', 3.0),  # settlemint-application-access-token
    (('sm_pat',), '', '(?:sm_pat_[a-zA-Z0-9]{16})', 3.0),  # settlemint-personal-access-token
    (('sm_sat',), '', '(?:sm_sat_[a-zA-Z0-9]{16})', 3.0),  # settlemint-service-access-token
    (('shippo_',), '', '(?:shippo_(?:live|test)_[a-fA-F0-9]{40})', 2.0),  # shippo-api-token
    (('shpat_',), '', 'shpat_[a-fA-F0-9]{32}', 2.0),  # shopify-access-token
    (('shpca_',), '', 'shpca_[a-fA-F0-9]{32}', 2.0),  # shopify-custom-access-token
    (('shppa_',), '', 'shppa_[a-fA-F0-9]{32}', 2.0),  # shopify-private-app-access-token
    (('shpss_',), '', 'shpss_[a-fA-F0-9]{32}', 2.0),  # shopify-shared-secret
    (('bundle_enterprise__contribsys__com', 'bundle_gems__contribsys__com'), '(?:BUNDLE_ENTERPRISE__CONTRIBSYS__COM|BUNDLE_GEMS__CONTRIBSYS__COM)', '(?i:(?:[a-f0-9]{8}:[a-f0-9]{8}))', 0.0),  # sidekiq-secret
    (('xapp',), '', '(?i:xapp-\\d-[A-Z0-9]{1,400}-\\d{1,400}-[a-z0-9]{1,400})', 2.0),  # slack-app-token
    (('xoxb',), '', 'xoxb-[0-9]{10,13}-[0-9]{10,13}[a-zA-Z0-9-]{0,400}', 3.0),  # slack-bot-token
    (('xoxe.xoxb-', 'xoxe.xoxp-'), '', '(?i:xoxe.xox[bp]-\\d-[A-Z0-9]{163,166})', 2.0),  # slack-config-access-token
    (('xoxe-',), '', '(?i:xoxe-\\d-[A-Z0-9]{146})', 2.0),  # slack-config-refresh-token
    (('xoxb',), '', 'xoxb-[0-9]{8,14}-[a-zA-Z0-9]{18,26}', 2.0),  # slack-legacy-bot-token
    (('xoxo', 'xoxs'), '', 'xox[os]-\\d{1,400}-\\d{1,400}-\\d{1,400}-[a-fA-F\\d]{1,400}', 2.0),  # slack-legacy-token
    (('xoxa', 'xoxr'), '', 'xox[ar]-(?:\\d-)?[0-9a-zA-Z]{8,48}', 2.0),  # slack-legacy-workspace-token
    (('xoxp-', 'xoxe-'), '', 'xox[pe](?:-[0-9]{10,13}){3}-[a-zA-Z0-9-]{28,34}', 2.0),  # slack-user-token
    (('hooks.slack.com',), '', '(?:https?://)?hooks.slack.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43,56}', 0.0),  # slack-webhook-url
    (('snyk',), '(?:snyk[_.-]?(?:(?:api|oauth)[_.-]?)?(?:key|token))', '(?i:(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))', 0.0),  # snyk-api-token
    (('sonar',), '(?:sonar[_.-]?(?:login|token))', '(?i:(?:(?:squ_|sqp_|sqa_)?[a-z0-9=_\\-]{40}))', 0.0),  # sonar-api-token
    (('sq0atp-', 'eaaa'), '', '(?:(?:EAAA|sq0atp-)[\\w-]{22,60})', 2.0),  # square-access-token
    (('squarespace',), '(?:squarespace)', '(?i:(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))', 0.0),  # squarespace-access-token
    (('sk_test', 'sk_live', 'sk_prod', 'rk_test', 'rk_live', 'rk_prod'), '', '(?:(?:sk|rk)_(?:test|live|prod)_[a-zA-Z0-9]{10,99})', 2.0),  # stripe-access-token
    (('sumo',), '(?:(?-i:[Ss]umo|SUMO))', '(?i:(?:[a-z0-9]{64}))', 3.0),  # sumologic-access-token
    (('telegr',), '(?:telegr)', '(?i:(?:[0-9]{5,16}:(?-i:A)[a-z0-9_\\-]{34}))', 0.0),  # telegram-bot-api-token
    (('travis',), '(?:travis)', '(?i:(?:[a-z0-9]{22}))', 0.0),  # travisci-access-token
    (('twitch',), '(?:twitch)', '(?i:(?:[a-z0-9]{30}))', 0.0),  # twitch-api-token
    (('twitter',), '(?:twitter)', '(?i:(?:[a-z0-9]{45}))', 0.0),  # twitter-access-secret
    (('twitter',), '(?:twitter)', '(?i:(?:[0-9]{15,25}-[a-zA-Z0-9]{20,40}))', 0.0),  # twitter-access-token
    (('twitter',), '(?:twitter)', '(?i:(?:[a-z0-9]{25}))', 0.0),  # twitter-api-key
    (('twitter',), '(?:twitter)', '(?i:(?:[a-z0-9]{50}))', 0.0),  # twitter-api-secret
    (('twitter',), '(?:twitter)', '(?i:(?:A{22}[a-zA-Z0-9%]{80,100}))', 0.0),  # twitter-bearer-token
    (('tfp_',), '(?:typeform)', '(?i:(?:tfp_[a-z0-9\\-_\\.=]{59}))', 0.0),  # typeform-api-token
    (('hvb.',), '', '(?:hvb\\.[\\w-]{138,300})', 4.0),  # vault-batch-token
    (('yandex',), '(?:yandex)', '(?i:(?:t1\\.[A-Z0-9a-z_-]{1,400}[=]{0,2}\\.[A-Z0-9a-z_-]{86}[=]{0,2}))', 0.0),  # yandex-access-token
    (('yandex',), '(?:yandex)', '(?i:(?:AQVN[A-Za-z0-9_\\-]{35,38}))', 0.0),  # yandex-api-key
    (('yandex',), '(?:yandex)', '(?i:(?:YC[a-zA-Z0-9_\\-]{38}))', 0.0),  # yandex-aws-access-token
    (('zendesk',), '(?:zendesk)', '(?i:(?:[a-z0-9]{40}))', 0.0),  # zendesk-secret-key
)
