/* SPDX-License-Identifier: MIT */
/*
 * fault_steer.c - see fault_steer.h.
 */
#include "tests/integration/fault_steer.h"
#include "tests/support/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fault_kind_names[FAULT_KINDS] = {
    [FAULT_MEMORY] = "memory", [FAULT_EVENTS] = "events",
    [FAULT_JSON] = "json",     [FAULT_DESCRIPTOR] = "descriptor",
    [FAULT_MAP] = "map",       [FAULT_THREAD] = "thread",
    [FAULT_IO] = "io",         [FAULT_FABRIC] = "fabric",
    [FAULT_VERBS] = "verbs"};

struct fault_page *fault_page_make(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct fault_page)) == 0, "%s: %s", path,
          strerror(errno));
    void *at = mmap(NULL, sizeof(struct fault_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
    close(fd);
    return at;
}

void fault_page_use(const char *path) {
    setenv(FAULT_PAGE, path, 1);
}

void fault_page_arm(struct fault_page *page, enum fault_kind kind, long number) {
    atomic_store(&page->countdown, 0);
    if (!number)
        return;
    atomic_store(&page->failed, 0);
    atomic_store(&page->kind, (unsigned)kind);
    atomic_store(&page->countdown, number);
}

void fault_page_show(const struct fault_page *page) {
    char program[4096], address[FAULT_FRAMES][24], out[8192];
    const char *argv[FAULT_FRAMES + 4] = {
        "/usr/bin/addr2line", "-pfse",
        build_path("tests/fault/rdmad_fault", program, sizeof(program))};
    if (!page->failed) {
        printf("    (nothing failed)\n");
        return;
    }
    for (unsigned i = 0; i < page->frames; i++) {
        snprintf(address[i], sizeof(address[i]), "0x%llx", (unsigned long long)page->frame[i]);
        argv[i + 3] = address[i];
    }
    run_program(argv, out, sizeof(out));
    printf("    %s failed in\n", page->call);
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
        printf("        %s\n", line);
}
