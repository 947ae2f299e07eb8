# SPDX-License-Identifier: MIT
# Every constant and struct of the public headers as entries of constants.c's tables, so that none
# can be forgotten there.
/^#define RDMAD_[A-Z0-9_]+[ \t]+[^ \t]/ {
    name = $2
    if (name !~ /_INIT$/ && name != "RDMAD_API" && name != "RDMAD_STATIC_ASSERT")
        print "CONSTANT(" name ")"
}
/^ +X\(RDMAD_[A-Z0-9_]+,/ { sub(/^ +X\(/, ""); sub(/,.*/, ""); print "CONSTANT(" $0 ")" }
/^enum rdmad_.*\};$/ { # in one line
    sub(/^[^{]*\{ */, "")
    count = split($0, items, /,? +/)
    for (i = 1; i <= count; i++)
        if (items[i] ~ /^RDMAD_/)
            print "CONSTANT(" items[i] ")"
}
/^enum rdmad_/ { in_enum = 1 }
/^}/ { in_enum = 0 }
in_enum && /^    RDMAD_[A-Z0-9_]+( = |,|$)/ { sub(/^ +/, ""); sub(/[ ,].*/, ""); print "CONSTANT(" $0 ")" }
/^struct rdmad_[a-z_]+ \{/ { print "STRUCT(" $2 ")" }
