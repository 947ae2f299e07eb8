/* SPDX-License-Identifier: MIT */
/* A program of somebody else's: it needs no daemon, only that the library is found and answers. */
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *session;

    options.runtime_dir = "/nonexistent";
    if (rdmad_open(&options, &session) != RDMAD_E_NO_DAEMON)
        return 1;
    if (!strstr(rdmad_last_error(NULL), "/nonexistent") || strcmp(rdmad_errname(0), "RDMAD_OK"))
        return 1;
    puts(rdmad_version());
    return 0;
}
