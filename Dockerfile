# Ralph with its dashboard. An agent's own program is not in it: derive an image that installs yours.
#   docker build -t ralph-memory .
#   docker run --rm -v "$PWD":/project ralph-memory run
#   docker run --rm -v "$PWD":/project --network host ralph-memory serve
FROM python:3.13-slim AS build
WORKDIR /source
COPY requirements/run.txt requirements/run.txt
RUN python -m pip --disable-pip-version-check --no-cache-dir install --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -c "from flit_core.buildapi import build_wheel; build_wheel('/wheels')"

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 ralph \
    && mkdir /project && chown ralph:ralph /project
COPY requirements/run.txt /tmp/run.txt
COPY --from=build /wheels /wheels
RUN python -m pip --disable-pip-version-check --no-cache-dir install --require-hashes -r /tmp/run.txt \
    && python -m pip --disable-pip-version-check --no-cache-dir install "$(ls /wheels/*.whl)[server,acp]" \
    && rm -rf /tmp/run.txt
USER ralph
WORKDIR /project
VOLUME /project
EXPOSE 8420
ENTRYPOINT ["ralph"]
CMD ["status"]
