/*
 * Sends the notifications of the benchmark by net-snmp's library: each is a PDU of its own, made of variable
 * bindings as its agent makes one, and passed to the session of the receiver.
 *
 * notifier KIND PORT COMMUNITY WINDOW COUNT VARBINDS
 *
 * KIND is trap or inform; of informs up to WINDOW are without an answer. VARBINDS is a file with a line for each
 * variable binding: name, ASN.1 tag, and the value: a number, an object identifier, or the hexadecimal digits of
 * octets. The third variable binding is an event id: its last eight octets are replaced by the number of the
 * notification. It prints how many were sent (and answered, for informs), and the seconds of processor time.
 */
#include <net-snmp/net-snmp-config.h>
#include <net-snmp/net-snmp-includes.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, LONGEST = 512, EVENT_ID = 2, DIGITS = 8, LINE = 4096 };

struct binding {
    oid name[MAX_OID_LEN];
    size_t name_length;
    u_char type;
    union {
        long number;
        oid identifier[MAX_OID_LEN];
        u_char octets[LONGEST];
    } value;
    size_t octets;
};

static struct binding bindings[MOST];
static size_t known;
static long answered;
static long unanswered;

static double processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void refuse(const char *line)
{
    fprintf(stderr, "not a variable binding: %s\n", line);
    exit(1);
}

static void read_value(struct binding *binding, const char *text)
{
    size_t length = MAX_OID_LEN;
    unsigned octet;
    if (binding->type == ASN_OBJECT_ID) {
        if (!read_objid(text, binding->value.identifier, &length))
            refuse(text);
        binding->octets = length * sizeof(oid);
    } else if (binding->type != ASN_OCTET_STR) {
        binding->value.number = atol(text);
        binding->octets = sizeof binding->value.number;
    } else {
        for (; sscanf(text, "%2x", &octet) == 1 && binding->octets < LONGEST; text += 2)
            binding->value.octets[binding->octets++] = (u_char) octet;
    }
}

static void read_bindings(const char *path)
{
    static char line[LINE], name[LINE], value[LINE];
    FILE *file = fopen(path, "r");
    unsigned type;
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    for (; known < MOST && fgets(line, sizeof line, file); known++) {
        struct binding *binding = &bindings[known];
        value[0] = 0;
        binding->name_length = MAX_OID_LEN;
        if (sscanf(line, "%4095s %u %4095s", name, &type, value) < 2
            || !read_objid(name, binding->name, &binding->name_length))
            refuse(line);
        binding->type = (u_char) type;
        read_value(binding, value);
    }
    fclose(file);
}

static netsnmp_pdu *notification(int type, long number)
{
    static char digits[DIGITS + 1];
    struct binding *id = &bindings[EVENT_ID];
    netsnmp_pdu *pdu = snmp_pdu_create(type);
    snprintf(digits, sizeof digits, "%08ld", number % 100000000);
    if (id->octets >= DIGITS)
        memcpy(id->value.octets + id->octets - DIGITS, digits, DIGITS);
    for (size_t place = 0; place < known; place++) {
        const struct binding *one = &bindings[place];
        if (snmp_pdu_add_variable(pdu, one->name, one->name_length, one->type, &one->value, one->octets) == NULL) {
            fprintf(stderr, "cannot add variable binding %zu\n", place);
            exit(1);
        }
    }
    return pdu;
}

static int received(int operation, netsnmp_session *session, int number, netsnmp_pdu *pdu, void *unused)
{
    (void) session;
    (void) number;
    (void) pdu;
    (void) unused;
    unanswered--;
    answered += operation == NETSNMP_CALLBACK_OP_RECEIVED_MESSAGE;
    return 1;
}

static void read_answers(void)
{
    int descriptors = 0, blocks = 1;
    fd_set readable;
    struct timeval patience = { .tv_sec = 1 };
    FD_ZERO(&readable);
    snmp_select_info(&descriptors, &readable, &patience, &blocks);
    if (select(descriptors, &readable, NULL, NULL, blocks ? NULL : &patience) > 0)
        snmp_read(&readable);
    else
        snmp_timeout();
}

int main(int count, char **arguments)
{
    static char address[64];
    netsnmp_session settings, *session;
    if (count != 7) {
        fprintf(stderr, "notifier KIND PORT COMMUNITY WINDOW COUNT VARBINDS\n");
        return 2;
    }
    int is_inform = strcmp(arguments[1], "inform") == 0;
    long window = atol(arguments[4]), wanted = atol(arguments[5]), sent = 0;
    init_snmp("notifier");
    read_bindings(arguments[6]);
    snmp_sess_init(&settings);
    snprintf(address, sizeof address, "udp:127.0.0.1:%s", arguments[2]);
    settings.peername = address;
    settings.version = SNMP_VERSION_2c;
    settings.community = (u_char *) arguments[3];
    settings.community_len = strlen(arguments[3]);
    session = snmp_open(&settings);
    if (session == NULL) {
        snmp_perror("snmp_open");
        return 1;
    }
    double begin = processor_time();
    for (; sent < wanted; sent++) {
        netsnmp_pdu *pdu = notification(is_inform ? SNMP_MSG_INFORM : SNMP_MSG_TRAP2, sent + 1);
        int accepted = is_inform ? snmp_async_send(session, pdu, received, NULL) : snmp_send(session, pdu);
        if (!accepted) {
            snmp_sess_perror("notifier", session);
            return 1;
        }
        for (unanswered += is_inform; unanswered >= window;)
            read_answers();
    }
    while (unanswered > 0)
        read_answers();
    printf("%ld %.6f\n", is_inform ? answered : sent, processor_time() - begin);
    snmp_close(session);
    return 0;
}
