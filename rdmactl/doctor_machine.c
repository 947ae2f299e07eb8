/* SPDX-License-Identifier: MIT */
/*
 * doctor_machine.c - memory and the kernel's settings.
 */
#include "rdmactl/doctor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void doctor_check_memory(struct exam *e) {
    char line[64] = "0", a[CELL_MAX], b[CELL_MAX];
    if (!exam_line_with(e, "/proc/meminfo", "MemAvailable:", line, sizeof(line))) {
        exam_say(e, SKIPPED, "/proc/meminfo does not tell how much memory is available");
        return;
    }
    double available = strtod(line, NULL) * 1024;
    const json_t *limit = exam_fact(e, "limits", "pool_bytes");
    double left = json_number_value(json_object_get(limit, "max")) -
                  json_number_value(json_object_get(limit, "used"));
    if (left <= available) {
        exam_say(e, GOOD, "%s of memory are available", cli_human_bytes(b, available));
        return;
    }
    exam_say(e, WARNING, "pools may still take %s%s, but %s of memory are available",
             cli_human_bytes(a, left), exam_uses_verbs(e) ? ", pinned" : "",
             cli_human_bytes(b, available));
    exam_next(e, "lower limits.pool_bytes");
}

void doctor_check_hugepages(struct exam *e) {
    char count[32] = "0", size[32] = "?";
    bool known = exam_first_line(e, "/proc/sys/vm/nr_hugepages", count, sizeof(count));
    exam_line_with(e, "/proc/meminfo", "Hugepagesize:", size, sizeof(size));
    if (known && strcmp(count, "0") != 0) {
        exam_say(e, GOOD, "%s huge pages of %s are reserved; pools may ask for them", count, size);
        return;
    }
    exam_say(e, NOTE,
             "no huge pages are reserved: pools that ask for them are refused, others work");
    exam_next(e, "for large pools reserve some: sysctl vm.nr_hugepages=N");
}

/* Whether word is one of the words of list. */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

void doctor_check_congestion(struct exam *e) {
    char available[256] = "", system[32] = "";
    const char *wanted = exam_fact_text(e, "congestion_control", NULL);
    const char *base = "/proc/sys/net/ipv4/tcp_";
    char path[96];
    snprintf(path, sizeof(path), "%savailable_congestion_control", base);
    bool known = exam_first_line(e, path, available, sizeof(available));
    snprintf(path, sizeof(path), "%scongestion_control", base);
    exam_first_line(e, path, system, sizeof(system));
    const char *used = *wanted ? wanted : system;
    if (exam_uses_verbs(e)) {
        exam_say(e, GOOD, "does not matter: data does not go over TCP");
    } else if (known && *wanted && !has_word(available, wanted)) {
        exam_say(e, BAD, "%s is configured, this kernel has %s", wanted, available);
        exam_next(e, "modprobe tcp_%s, or change tcp.congestion_control", wanted);
    } else if (!strcmp(used, "bbr")) {
        exam_say(e, WARNING, "bbr is used, which costs 3 to 4 times on fast short paths");
        exam_next(e, "set tcp.congestion_control to cubic");
    } else {
        exam_say(e, GOOD, "%s is used", *used ? used : "the system's");
    }
}
