/* SPDX-License-Identifier: MIT */
/*
 * The configuration: what is wrong is refused with its place and changes nothing.
 */
#include "daemon/config/config.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct config parsed(const char *text) {
    struct config c;
    struct error err = {0};
    config_defaults(&c);
    cr_assert_eq(config_parse(&c, "F", text, strlen(text), &err), 0, "%s", err.text);
    return c;
}

/* Refused with exactly this sentence, and nothing changed. */
static void refused(const char *text, const char *sentence) {
    struct config before, c;
    struct error err = {0};
    config_defaults(&before);
    c = before;
    cr_assert_eq(config_parse(&c, "F", text, strlen(text), &err), RDMAD_E_CONFIG, "%s", text);
    cr_assert_eq(memcmp(&c, &before, sizeof(c)), 0, "a refused file changed something");
    if (sentence)
        cr_assert_str_eq(err.text, sentence);
    cr_assert_eq(strncmp(err.text, "F:", 2) && strncmp(err.text, "spin", 4) &&
                     strncmp(err.text, "op.", 3) && strncmp(err.text, "peer.", 5) &&
                     strncmp(err.text, "verbs.", 6) && strncmp(err.text, "require_rdma", 12) &&
                     strncmp(err.text, "workers is", 10),
                 0, "%s", err.text);
}

Test(config, an_empty_object_leaves_the_defaults) {
    struct config c = parsed("{}");
    cr_assert_str_eq(c.runtime_dir, "/run/rdmad");
    cr_assert_str_eq(c.listen, "127.0.0.1:7471");
    cr_assert_eq(c.workers, 1);
    cr_assert_eq(c.require_rdma, false);
}

Test(config, values_of_every_type_are_taken) {
    struct config c = parsed("{\"listen\": \"[::1]:80\", \"workers\": 3, \"require_rdma\": true,"
                             "\"lease\": {\"max_ttl_ms\": 5000}}");
    cr_assert_str_eq(c.listen, "[::1]:80");
    cr_assert_eq(c.workers, 3);
    cr_assert_eq(c.require_rdma, true);
    cr_assert_eq(c.lease_max_ttl_ms, 5000);
}

Test(config, comments_are_ignored_outside_of_strings_only) {
    struct config c = parsed("// first \"line\n"
                             "{ # opening }\n"
                             "\"runtime_dir\": \"/a//b#c\\\"//d\", // the end\n"
                             "\"workers\": 2 //\n"
                             "}#");
    cr_assert_str_eq(c.runtime_dir, "/a//b#c\"//d");
    cr_assert_eq(c.workers, 2);
}

Test(config, an_unknown_key_is_named_with_its_place_and_the_nearest_known_one) {
    refused("{\n  \"wrokers\": 1}", "F:2:3: unknown key \"wrokers\", did you mean \"workers\"?");
    refused("{\"lease\": {\n\n   \"max_ttl\": 1}}",
            "F:3:4: unknown key \"lease.max_ttl\", did you mean \"lease.max_ttl_ms\"?");
    refused("{ // workers\n \"max_ttl_ms\": 1}",
            "F:2:2: unknown key \"max_ttl_ms\", did you mean \"lease.max_ttl_ms\"?");
    refused("{\"workers\": 1, \"lease.max_ttl_ms\": 1}",
            "F:1:16: unknown key \"lease.max_ttl_ms\"; write \"lease\": {\"max_ttl_ms\": ...}");
    refused("{\"zzzzzzzzzzzzzzzz\": 1}", "F:1:2: unknown key \"zzzzzzzzzzzzzzzz\"; rdmad "
                                         "--print-config-reference lists them all");
    refused("{\"\": 1}", NULL);
}

Test(config, the_place_is_that_of_the_key_meant_not_of_one_that_looks_like_it) {
    refused("{\"node_name\": \"workers\", \"tcp\": {\"data_port\": 1},\n \"peer\": {\"max\": 0}}",
            "F:2:18: peer.max is 0, must be from 1 to 65536");
    refused("{\"work\\u0065rs\": 0}", "F:1:18: workers is 0, must be from 1 to 64");
}

Test(config, a_wrong_type_is_named_with_both_types) {
    refused("{\"workers\": \"1\"}", "F:1:13: workers must be an integer, this is a text");
    refused("{\"workers\": 1.5}",
            "F:1:13: workers must be an integer, this is a number with a fraction");
    refused("{\"listen\": [\"a\"]}", "F:1:12: listen must be a text, this is an array");
    refused("{\"require_rdma\": 1}",
            "F:1:18: require_rdma must be true or false, this is an integer");
    refused("{\"lease\": 7}", "F:1:11: lease must be an object, this is an integer");
    refused("{\"workers\": null}", NULL);
    refused("[]", "F:1:1: the file must hold one object, { ... }");
}

Test(config, a_value_out_of_range_is_named_with_the_range) {
    refused("{\"workers\": 65}", "F:1:13: workers is 65, must be from 1 to 64");
    refused("{\"workers\": -1}", "F:1:13: workers is -1, must be from 1 to 64");
    refused("{\"drain_timeout_ms\": 600001}",
            "F:1:22: drain_timeout_ms is 600001, must be from 0 to 600000 ms");
    refused("{\"workers\": 99999999999999999999999}", NULL);
    refused("{\"op\": {\"default_timeout_ms\": 3600001}}",
            "F:1:31: op.default_timeout_ms is 3600001, must be from 1 to 3600000 ms");
    refused("{\"log_level\": \"loud\"}",
            "F:1:15: log_level \"loud\": must be one of error, warning, "
            "notice, info, debug");
    refused("{\"listen\": \"nowhere\"}", NULL);
    refused("{\"node_name\": \"a/b\"}", NULL);
    refused("{\"runtime_dir\": \"\"}", NULL);
    char text[200];
    snprintf(text, sizeof(text), "{\"runtime_dir\": \"%0100d\"}", 0);
    refused(text, "F:1:17: runtime_dir has 100 characters, at most 79 are possible");
}

Test(config, settings_that_contradict_each_other_are_refused) {
    refused("{\"spin\": {\"min_us\": 300}}", "spin.min_us (300) is larger than spin.max_us (200)");
    refused("{\"peer\": {\"ping_ms\": 10000}}", NULL);
}

/* Each worker listens, and the second would find the port taken. */
Test(config, several_workers_do_not_take_data_at_one_port) {
    static const char two[] = "\"workers\": 2, \"tcp\": {\"data_port\": 7472}";
    char text[300];
    snprintf(text, sizeof(text), "{%s}", two);
    refused(text,
            "workers is 2 and tcp.data_port is 7472, but each worker takes data connections at "
            "a port of its own: leave tcp.data_port out, or have one worker");
    snprintf(text, sizeof(text), "{%s, \"fabric\": \"verbs\"}", two);
    refused(text, NULL);
    snprintf(text, sizeof(text), "{%s, \"require_rdma\": true, \"verbs\": {\"connect\": \"cm\"}}",
             two);
    refused(text, NULL);
    snprintf(text, sizeof(text), "{%s, \"require_rdma\": true}", two);
    cr_assert_eq(parsed(text).workers, 2, "nobody listens for data");
    snprintf(text, sizeof(text), "{%s, \"peer\": {\"fallback_tcp\": false}}", two);
    cr_assert_eq(parsed(text).workers, 2, "with a device nobody does");
    cr_assert_eq(parsed("{\"tcp\": {\"data_port\": 7472}}").tcp_data_port, 7472);
}

Test(config, the_fabric_asked_for_must_be_one_that_there_is) {
    cr_assert_str_eq(parsed("{}").fabric, "auto");
    cr_assert_str_eq(parsed("{\"fabric\": \"verbs\"}").fabric, "verbs");
    refused("{\"fabric\": \"ucx\"}", "F:1:12: fabric \"ucx\": must be one of auto, verbs, tcp");
    refused("{\"fabric\": \"tcp\", \"require_rdma\": true}",
            "require_rdma is true and fabric is \"tcp\", which uses no RDMA; choose fabric "
            "\"verbs\" or \"auto\", or leave require_rdma out");
    refused("{\"verbs\": {\"connect\": \"magic\"}}", NULL);
    refused("{\"verbs\": {\"windows\": \"open\"}}", NULL);
}

Test(config, a_mtu_that_no_path_has_is_refused) {
    for (unsigned mtu = 256; mtu <= 4096; mtu *= 2) {
        char text[64];
        snprintf(text, sizeof(text), "{\"verbs\": {\"mtu\": %u}}", mtu);
        cr_assert_eq(parsed(text).verbs_mtu, mtu);
    }
    cr_assert_eq(parsed("{\"verbs\": {\"mtu\": 0}}").verbs_mtu, 0);
    refused("{\"verbs\": {\"mtu\": 1500}}",
            "verbs.mtu is 1500, must be 256, 512, 1024, 2048, 4096, or 0 for the port's");
    refused("{\"verbs\": {\"mtu\": 128}}", NULL);
    refused("{\"verbs\": {\"mtu\": 8192}}",
            "F:1:19: verbs.mtu is 8192, must be from 0 to 4096 bytes");
}

Test(config, a_full_queue_is_always_told_of) {
    refused("{\"verbs\": {\"queue_depth\": 8}}",
            "verbs.signal_every (16) is larger than verbs.queue_depth (8), so a full queue would "
            "never be told of");
    cr_assert_eq(parsed("{\"verbs\": {\"queue_depth\": 16}}").verbs_queue_depth, 16);
}

Test(config, waiting_for_ever_for_an_answer_is_not_possible) {
    refused("{\"verbs\": {\"timeout\": 0}}", NULL);
    cr_assert_eq(parsed("{}").verbs_retry_count, 6);
    cr_assert_eq(parsed("{}").verbs_rnr_retry, 6);
}

Test(config, a_gid_is_an_index_or_an_address) {
    const char *const good[] = {"", "0", "7", "10.77.0.1", "fe80::1", "::ffff:10.77.0.1"};
    const char *const bad[] = {"-1", "x", "70000", "1 ", "10.77.0", "eth0", "99999999999999999999"};
    char text[128];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "{\"verbs\": {\"gid\": \"%s\"}}", good[i]);
        cr_assert_str_eq(parsed(text).verbs_gid, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "{\"verbs\": {\"gid\": \"%s\"}}", bad[i]);
        refused(text, NULL);
    }
}

Test(config, metrics_are_at_a_port_of_loopback_at_the_socket_or_at_both) {
    const char *const good[] = {"",
                                "unix",
                                "127.0.0.1:9471",
                                "[::1]:9471",
                                "unix,127.0.0.1:9471",
                                "127.0.0.1:0,unix",
                                "unix, [::1]:9471"};
    const char *const bad[] = {",",
                               "unix,",
                               ",unix",
                               "unix,unix",
                               "127.0.0.1:1,127.0.0.1:2",
                               "unix 127.0.0.1:1",
                               "unix,0.0.0.0:9471",
                               "unix,localhost:9471",
                               "unix,  127.0.0.1:1"};
    char text[128];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "{\"metrics\": {\"listen\": \"%s\"}}", good[i]);
        cr_assert_str_eq(parsed(text).metrics_listen, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "{\"metrics\": {\"listen\": \"%s\"}}", bad[i]);
        refused(text, NULL);
    }
}

Test(config, private_links_name_users_by_number_or_everybody) {
    const char *const good[] = {"", "*", "0", "1000", "1000,0,4294967294"};
    const char *const bad[] = {",",   "1,",  "1,,2",       "root", "1 ,2",
                               "*,1", "1,*", "4294967295", "-1",   "18446744073709551616"};
    char text[128];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "{\"peer\": {\"private_links\": \"%s\"}}", good[i]);
        cr_assert_str_eq(parsed(text).peer_private_links, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "{\"peer\": {\"private_links\": \"%s\"}}", bad[i]);
        refused(text, NULL);
    }
}

Test(config, broken_json_is_refused_with_its_place) {
    refused("", NULL);
    refused("{", NULL);
    refused("{\"workers\": 1,}", NULL);
    refused("{\"workers\": 1 /* no */}", NULL);
    refused("{\"workers\": 1}{}", NULL);
    refused("{\"runtime_dir\": \"a\nb\"}", NULL);
    refused("{\"workers\": 1,\n \"workers\": 2}", NULL);
    refused("{\"runtime_dir\": \"\\u0000\"}", NULL);
    refused("{\"runtime_dir\": \"\xff\"}", NULL);
    struct config c;
    struct error err;
    config_defaults(&c);
    cr_assert_eq(config_parse(&c, "F", "{\n\"workers\": 1,\n\"workers\": 2}", 29, &err),
                 RDMAD_E_CONFIG);
    cr_assert_eq(strncmp(err.text, "F:3:", 4), 0, "%s", err.text);
}

Test(config, what_a_file_says_cannot_drive_a_terminal) {
    struct config c;
    struct error err;
    const char *text = "{\"\\u001b[2Jx\": 1}";
    config_defaults(&c);
    cr_assert_eq(config_parse(&c, "F", text, strlen(text), &err), RDMAD_E_CONFIG);
    cr_assert_null(strchr(err.text, '\x1b'));
}

Test(config, a_deep_tree_is_refused_and_does_not_overflow_the_stack) {
    static char text[400000];
    memset(text, '[', sizeof(text) - 1);
    refused(text, NULL);
}

Test(config, command_line_values_are_checked_like_the_files) {
    struct config c;
    struct error err;
    config_defaults(&c);
    cr_assert_eq(config_set(&c, "listen", "10.0.0.1:1", &err), 0);
    cr_assert_str_eq(c.listen, "10.0.0.1:1");
    cr_assert_eq(config_set(&c, "listen", "10.0.0.1", &err), RDMAD_E_CONFIG);
    cr_assert_eq(config_set(&c, "workers", "4", &err), 0);
    cr_assert_eq(c.workers, 4);
    const char *const bad[] = {"", "-1", " 1", "1x", "0", "18446744073709551617"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(config_set(&c, "workers", bad[i], &err), RDMAD_E_CONFIG);
    cr_assert_eq(c.workers, 4);
    cr_assert_eq(config_set(&c, "require_rdma", "yes", &err), RDMAD_E_CONFIG);
    cr_assert_eq(config_set(&c, "require_rdma", "true", &err), 0);
    cr_assert_eq(config_set(&c, "nothing", "1", &err), RDMAD_E_CONFIG);
}

Test(config, a_change_that_needs_a_restart_is_named) {
    struct config a, b;
    const char *key = NULL;
    config_defaults(&a);
    b = a;
    cr_assert_not(config_needs_restart(&a, &b, &key));
    strcpy(b.log_level, "debug");
    b.max_sessions = 5;
    cr_assert_not(config_needs_restart(&a, &b, &key));
    b.workers = 2;
    cr_assert(config_needs_restart(&a, &b, &key));
    cr_assert_str_eq(key, "workers");
}

/* Each key of each rule is told by its line. */
Test(config, many_rules_are_read_in_a_time_that_grows_as_they_do) {
    enum { RULES = 1024 };
    char *text, want[96];
    size_t size;
    struct error err;
    struct config c;
    FILE *f = open_memstream(&text, &size);
    fputs("{\"policy\": {\"users\": [\n", f);
    for (int i = 0; i < RULES; i++)
        fprintf(f,
                "%500s{\"match\": {\"uid\": %d}, \"connect\": true,\n   \"limits\": {\n"
                "    \"pools_per_uid\": 1,\n    \"rings_per_uid\": 1,\n    \"leases_per_uid\": 1,\n"
                "    \"attaches_per_uid\": 1,\n    \"services_per_uid\": %s}}%s\n",
                "", i, i == RULES - 1 ? "-1" : "1", i == RULES - 1 ? "" : ",");
    fputs("]}}\n", f);
    fclose(f);
    config_defaults(&c);
    clock_t began = clock();
    cr_assert_eq(config_parse(&c, "F", text, size, &err), RDMAD_E_CONFIG);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    snprintf(want, sizeof(want), "F:%d:25: ", 1 + 7 * RULES);
    cr_assert_eq(strncmp(err.text, want, strlen(want)), 0, "%s", err.text);
    cr_assert_lt(seconds, 2, "%.1f s", seconds);
    free(text);
}

/* A place before the last one, one in another list, and an element that is not there. */
Test(config, places_are_found_in_any_order) {
    refused("{\"policy\": {\"peers\": [{\"dials\": true}],\n\n"
            "\"users\": [{\"connect\": true},\n {\"connect\": 1}]}}",
            "F:4:14: connect must be true or false, this is an integer");
    refused("{\"policy\": {\"users\": [{\"match\": {\"uid\": 1}},\n {\"match\": {\"uid\": 2}}]},\n"
            "\"sockets\": [{\"tenant\": \"a\"},\n{\"tenant\": \"b\"},\n {\"tenant\": \"a\"}]}",
            "F:5:2: another socket has the same tenant");
}

Test(config, no_two_tenants_have_a_socket_at_one_path) {
    refused("{\"sockets\": [{\"tenant\": \"red\", \"path\": \"/run/t.sock\"},\n"
            "{\"tenant\": \"blue\", \"path\": \"/run/t.sock\"}]}",
            "F:2:28: the socket of tenant red has the same path, /run/t.sock");
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

Test(config, the_d_directory_follows_in_order_of_name_and_a_bad_file_undoes_all) {
    char dir[] = "/tmp/rdmad-config-XXXXXX", path[100];
    struct config c;
    struct error err = {0};
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
    write_file("c.json", "{\"workers\": 2, \"node_name\": \"main\"}");
    mkdir("c.json.d", 0700);
    write_file("c.json.d/20.json", "{\"workers\": 4}");
    write_file("c.json.d/10.json", "{\"workers\": 3, \"drain_timeout_ms\": 1}");
    write_file("c.json.d/30.json~", "{\"workers\": 9}");
    config_defaults(&c);
    cr_assert_eq(config_load(&c, "c.json", NULL, &err), 0, "%s", err.text);
    cr_assert_eq(c.workers, 4);
    cr_assert_eq(c.drain_timeout_ms, 1);
    cr_assert_str_eq(c.node_name, "main");

    write_file("c.json.d/40.json", "{\"workers\": 0}");
    struct config before = c;
    cr_assert_eq(config_load(&c, "c.json", NULL, &err), RDMAD_E_CONFIG);
    cr_assert_eq(strncmp(err.text, "c.json.d/40.json:1:13: ", 23), 0, "%s", err.text);
    cr_assert_eq(memcmp(&c, &before, sizeof(c)), 0);
    cr_assert_eq(config_load(&c, "missing.json", NULL, &err), RDMAD_E_CONFIG);
    cr_assert_eq(config_load(&c, ".", NULL, &err), RDMAD_E_CONFIG);
    cr_assert_eq(config_load(&c, NULL, NULL, &err), 0);
    snprintf(path, sizeof(path), "rm -r %s", dir);
    cr_assert_eq(system(path), 0);
}

static char *reference(void) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    config_print_reference(f);
    fclose(f);
    return text;
}

Test(config, the_reference_is_a_file_that_sets_every_key_to_its_default) {
    char *text = reference();
    struct config defaults, c;
    struct error err = {0};
    config_defaults(&defaults);
    memset(&c, 0, sizeof(c));
    cr_assert_eq(config_parse(&c, "F", text, strlen(text), &err), 0, "%s", err.text);
    cr_assert_eq(memcmp(&c, &defaults, sizeof(c)), 0, "some key is missing");
    free(text);
}

Test(config, the_shipped_file_is_the_reference) {
    char path[4096], shipped[65536];
    const char *source = getenv("RDMAD_SOURCE");
    if (!source)
        cr_skip("RDMAD_SOURCE is not set: run through ctest");
    snprintf(path, sizeof(path), "%s/config/rdmad.json", source);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    size_t n = fread(shipped, 1, sizeof(shipped) - 1, f);
    fclose(f);
    shipped[n] = '\0';
    char *text = reference();
    cr_assert_str_eq(shipped, text,
                     "regenerate it: rdmad --print-config-reference > config/rdmad.json");
    free(text);
}
