# SPDX-License-Identifier: MIT
# The keys of config/rdmad.json, which is printed from the daemon's own table, as a man page's list.
/^[ ]*\/\// { if (!started) next; sub(/^[ ]*\/\/ ?/, ""); help = help (help ? " " : "") $0; next }
/^\{/ { started = 1; next }
/^[ ]*"[a-z_]+": \{/ {
    split($0, part, "\"")
    section = part[2] "."
    gsub(/[_*\\]/, "\\\\&", help)
    if (help) printf "*%s*\n\t%s\n\n", part[2], help
    help = ""
    next
}
/^[ ]*\}/ { section = ""; next }
/^[ ]*"[a-z_]+":/ {
    split($0, part, "\"")
    value = $0
    sub(/^[ ]*"[a-z_]+": /, "", value)
    sub(/,$/, "", value)
    gsub(/[_*\\]/, "\\\\&", help)
    gsub(/[_*\\]/, "\\\\&", value)
    if (!help) help = "See *" substr(section, 1, length(section) - 1) "*."
    printf "*%s%s* = %s\n\t%s\n\n", section, part[2], value, help
    help = ""
}
