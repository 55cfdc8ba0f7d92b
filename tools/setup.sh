#!/bin/sh
# Install what a build and the tests need, once. Says what it does; does nothing when all is there.
# Debian packages by apt-get (as root, or through sudo); wgpu-native from its pinned Python wheel into
# build/wgpu; Python packages only into build/venv. Without the network or WebGPU the CPU build goes on.
set -u
cd "$(dirname "$0")/.." || exit 1
mkdir -p build

root=""
[ "$(id -u)" = 0 ] || root="sudo"
need=""
want() { # want PACKAGE TEST...: install PACKAGE when TEST fails
    package=$1
    shift
    "$@" >/dev/null 2>&1 || need="$need $package"
}
header() { echo "#include <$1>" | cc -E - ; }
library() { ldconfig -p 2>/dev/null | grep -q "$1" || /sbin/ldconfig -p 2>/dev/null | grep -q "$1"; }

want gcc cc --version
want g++ c++ --version
want cmake cmake --version
want ninja-build ninja --version
want pkg-config pkg-config --version
want git git --version
want libjansson-dev header jansson.h
want libpcre2-dev pkg-config --exists libpcre2-8
want python3-venv python3 -c "import ensurepip, venv"
want libcmocka-dev sh -c 'printf "#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <cmocka.h>\n" | cc -E -'
want libvulkan1 library libvulkan.so.1
want mesa-vulkan-drivers sh -c 'ls /usr/share/vulkan/icd.d/lvp_icd*.json'
want libdnnl2 library libdnnl.so.2
want xz-utils xz --version
want clang clang --version
want libclang-rt-14-dev sh -c 'ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a'

if [ -n "$need" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "setup: this system has no apt-get; install by hand the equivalents of:$need" >&2
    else
        echo "setup: installing$need"
        $root apt-get update -qq >build/apt.log 2>&1
        # One by one after a failure of the whole line, so that one missing package does not cost the rest.
        if ! $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $need >>build/apt.log 2>&1; then
            for package in $need; do
                $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" >>build/apt.log 2>&1 ||
                    echo "setup: $package could not be installed (build/apt.log)" >&2
            done
        fi
    fi
fi

SUDO=$root sh tools/setup_swiftshader.sh build
python3 tools/setup_venv.py build
python=build/venv/bin/python3
[ -x $python ] || python=python3
$python tools/setup_wgpu.py build
