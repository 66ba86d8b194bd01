# The image of trainproof: docker build -t trainproof .
# docker run --rm --network none --read-only -v "$PWD:/runs:ro" trainproof audit /runs
#
# Pin the base by digest with --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:...
# preflight, tokenizer and data read more with --build-arg EXTRAS=parquet,tokenizers,speech
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY trainproof ./trainproof
# The environment gets no pip: the one of the base installs into it, from wheels only. The extras
# are what a container cannot add later: zstandard, and those that were asked for.
ARG EXTRAS=
RUN python -m venv --without-pip /opt/venv \
    && python -m pip wheel --no-deps --wheel-dir /dist . \
    && python -m pip --python /opt/venv/bin/python install --only-binary :all: --compile \
       "$(echo /dist/*.whl)[zstd${EXTRAS:+,${EXTRAS}}]"

FROM ${PYTHON_IMAGE} AS runtime
LABEL org.opencontainers.image.title="trainproof" \
      org.opencontainers.image.description="Audit of training runs: deterministic rules over logs and checkpoints" \
      org.opencontainers.image.licenses="MIT"
# The slim images ship the standard library without bytecode, and a read-only root never keeps any:
# without this, every start compiles it anew.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /runs
# By number, so that an orchestrator that refuses root can tell.
USER 65532:65532
ENTRYPOINT ["trainproof"]
CMD ["--help"]
