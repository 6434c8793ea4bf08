# The image of every service and command: docker build -t streaminfer .
# Any base with Python 3.11 or newer and its venv will do: --build-arg BASE=...
ARG BASE=docker.io/library/python:3.11-slim-bookworm@sha256:528257d48c1da0dcecc2e725d1ae34498d60c965f1241e39cd6a85a8859bdf84

FROM ${BASE} AS build
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv /opt/tools && python3 -m venv --without-pip /opt/streaminfer
COPY requirements.lock ./
# Into both: the locked setuptools builds the wheel. Wheels only, so no code of others runs here.
RUN /opt/tools/bin/pip install --require-hashes --only-binary :all: -r requirements.lock && \
    /opt/tools/bin/pip --python /opt/streaminfer/bin/python install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY services services
COPY topics topics
COPY streaminfer streaminfer
RUN /opt/tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . && \
    /opt/tools/bin/pip --python /opt/streaminfer/bin/python install --no-deps /wheels/*.whl && \
    /opt/tools/bin/pip --python /opt/streaminfer/bin/python uninstall --yes setuptools && \
    find /opt/streaminfer/lib -type d -name tests -prune -exec rm -r {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="streaminfer" \
      org.opencontainers.image.description="Continuously updated Bayesian posteriors from event streams" \
      org.opencontainers.image.licenses="Apache-2.0"
# What installs packages is left behind.
RUN rm -rf /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/site-packages/* /usr/local/bin/pip* \
           /usr/lib/python3*/ensurepip /usr/share/python-wheels
COPY --from=build /opt/streaminfer /opt/streaminfer
ENV PATH=/opt/streaminfer/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["streaminfer"]
CMD ["--help"]
