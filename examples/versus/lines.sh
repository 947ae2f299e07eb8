#!/bin/sh
# SPDX-License-Identifier: MIT
#
# lines.sh: the lines of code of each program here, without comments, blank lines and braces alone,
# as the table of the README has them.
cd "$(dirname "$0")" || exit 1
for program in write pingpong handover; do
    for way in rdmad verbs; do
        sed -e 's://.*$::' "${program}_$way.c" |
            awk '{ while (match($0, /\/\*[^*]*\*+([^\/*][^*]*\*+)*\//)) $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
                   if (inside) { if (match($0, /\*\//)) { $0 = substr($0, RSTART + 2); inside = 0 } else next }
                   if (match($0, /\/\*/)) { $0 = substr($0, 1, RSTART - 1); inside = 1 }
                   if ($0 ~ /[^ \t{}]/) lines++ }
                 END { printf "%d ", lines }'
    done
    echo "$program"
done
