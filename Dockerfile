# The decoy benchmark, offline: `docker build -t interpbench-decoys .`, then
# `docker run --rm --network none interpbench-decoys` runs the gate, whose status says whether all of it holds, and
# `docker run --rm --network none interpbench-decoys decoys attribute --circuit baseline` any other of its commands.
FROM python:3.12-slim
WORKDIR /interpbench
COPY constraints.txt .
RUN pip install --no-cache-dir --constraint constraints.txt filelock numpy pydantic rich safetensors scipy
COPY interpbench interpbench
USER nobody
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["python", "-c", "from interpbench.runs.cli import main; main()"]
CMD ["decoys", "gate"]
