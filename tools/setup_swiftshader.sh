#!/bin/sh
# Put SwiftShader (a Vulkan driver on the CPU, which Dawn accepts where it refuses lavapipe) into
# BUILD_DIR/swiftshader, out of Debian's package chromium-common; nothing is installed. Idempotent. Without it
# the tests on Dawn are skipped.
set -u
out=$1/swiftshader
[ -e "$out/vk_swiftshader_icd.json" ] && exit 0
if [ -e /usr/lib/chromium/vk_swiftshader_icd.json ]; then
    mkdir -p "$out"
    sed 's#"library_path": *"[^"]*"#"library_path": "/usr/lib/chromium/libvk_swiftshader.so"#' \
        /usr/lib/chromium/vk_swiftshader_icd.json >"$out/vk_swiftshader_icd.json"
    exit 0
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 0
echo "setup: fetching SwiftShader (package chromium-common, 30 MB)"
work=$(mktemp -d "$1/swiftshader.XXXXXX") || exit 0
trap 'rm -rf "$work"' EXIT
# A package list that is out of date names a version that is gone.
(cd "$work" && { apt-get download chromium-common || { ${SUDO-} apt-get update -qq && apt-get download chromium-common; }; }) \
    >"$1/swiftshader.log" 2>&1 && dpkg-deb -x "$work"/chromium-common_*.deb "$work/x" >>"$1/swiftshader.log" 2>&1 || {
    echo "setup: SwiftShader could not be fetched ($1/swiftshader.log)" >&2
    exit 0
}
mkdir -p "$out"
cp "$work/x/usr/lib/chromium/libvk_swiftshader.so" "$out/" && cp "$work"/x/usr/share/doc/chromium-common/copyright "$out/" 2>/dev/null
cp "$work/x/usr/lib/chromium/vk_swiftshader_icd.json" "$out/"
