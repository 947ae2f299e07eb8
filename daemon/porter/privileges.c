/* SPDX-License-Identifier: MIT */
/*
 * privileges.c - the process touches what any client may send, so it gives up all privileges.
 *
 * root becomes nobody. Another user stays, without capabilities: a unit's system call filter may
 * refuse capset, so the ambient ones are cleared and the program is executed once more, after which
 * there are none. Nothing executed from here on gains any.
 */
#include "daemon/porter/privileges.h"
#include "daemon/porter/messages.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534u
#define AGAIN "again" /* argv[2] the second time */

static bool become_nobody(void) {
    return !setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
           !setresuid(NOBODY, NOBODY, NOBODY);
}

static bool has_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &header, data))
        return false;
    return data[0].permitted || data[1].permitted;
}

static void clear_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0L, 0L, 0L);
    syscall(SYS_capset, &header, none);
}

bool privileges_drop(int argc, char **argv) {
    bool again = argc > 2 && !strcmp(argv[2], AGAIN);
    if (geteuid() == 0)
        (void)!become_nobody(); /* a container's root may not be able to */
    clear_capabilities();
    if (has_capabilities() && !again) {
        char *const args[] = {argv[0], (char *)(uintptr_t)PORTER_OPTION, (char *)(uintptr_t)AGAIN,
                              NULL};
        execv("/proc/self/exe", args);
        return false;
    }
    return !prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) &&
           !prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0L, 0L, 0L);
}
