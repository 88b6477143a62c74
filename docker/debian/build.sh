#!/usr/bin/env bash
# Builds a Debian package of a wheel: build.sh WHEEL REQUIREMENTS FOLDER.
#
# The package contains a virtual environment for the Python of this Debian release, with the wheel and its locked
# requirements. A virtual environment cannot be moved as it is: the paths of its folder in scripts and in pyvenv.cfg are
# replaced by those of its place in an installed system. Debian's own Python is needed, since the environment refers to it.
set -euo pipefail
WHEEL=$1 REQUIREMENTS=$2 FOLDER=$3
HERE=$(dirname "$0")
PYTHON=/usr/bin/python3
PLACE=/opt/amqp-gateway

command -v dpkg-deb >/dev/null && [ -x $PYTHON ] || { echo "make deb needs Debian's dpkg and python3"; exit 1; }
mkdir -p "$FOLDER"
STAGE=$(mktemp -d "$(realpath "$FOLDER")/deb.XXXXXX")
trap 'rm -rf "$STAGE"' EXIT
chmod 0755 "$STAGE"
$PYTHON -m venv --without-pip "$STAGE$PLACE"
INSTALL=(python3 -m pip --python "$STAGE$PLACE/bin/python" install --quiet --no-compile --disable-pip-version-check)
"${INSTALL[@]}" --require-hashes --no-deps -r "$REQUIREMENTS"
"${INSTALL[@]}" --no-deps "$WHEEL"

bash "$HERE/shared_files.sh" "$STAGE$PLACE/bin/amqp-gateway" "$STAGE/usr/share"

rm -f "$STAGE$PLACE"/bin/[Aa]ctivate*
grep --recursive --files-with-matches --fixed-strings "$STAGE" "$STAGE$PLACE/bin" "$STAGE$PLACE/pyvenv.cfg" |
    xargs --no-run-if-empty sed -i "s|$STAGE||g"
# Installed by root, who must not have to write there at the first start.
"$STAGE$PLACE/bin/python" -m compileall -q -s "$STAGE" -j 0 "$STAGE$PLACE/lib"
mkdir -p "$STAGE/usr/bin" "$STAGE/DEBIAN"
ln -s $PLACE/bin/amqp-gateway "$STAGE/usr/bin/amqp-gateway"
mv "$STAGE/usr/share/doc/amqp-gateway/"{LICENSE,copyright}

read -r THIS NEXT < <($PYTHON -c 'import sys; a, b = sys.version_info[:2]; print(f"{a}.{b} {a}.{b + 1}")')
VERSION=$(basename "$WHEEL" | cut -d- -f2)
sed -e "s/@VERSION@/$VERSION/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" \
    -e "s/@PYTHON@/$THIS/" -e "s/@NEXT_PYTHON@/$NEXT/" \
    -e "s/@SIZE@/$(du --summarize --block-size=1024 --apparent-size "$STAGE" | cut -f1)/" \
    "$HERE/control.in" >"$STAGE/DEBIAN/control"
install --mode 0755 "$HERE/postinst" "$STAGE/DEBIAN/postinst"
dpkg-deb -Zzstd --root-owner-group --build "$STAGE" "$FOLDER" >/dev/null
echo "$FOLDER/amqp-gateway_${VERSION}_$(dpkg --print-architecture).deb"
