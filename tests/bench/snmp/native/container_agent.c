/*
 * The table of the benchmark, served by net-snmp's agent library: a table in its container, as its own
 * mib2c makes them, in a process of its own, with the access control of its daemon.
 *
 * container_agent PORT TABLE FIRST_COLUMN DATA
 *
 * TABLE is the OID of the table, DATA the rows as tests/bench/snmp/table.py packs them. The folder of its
 * configuration (SNMPCONFPATH) has container_agent.conf with the community.
 */
#include <net-snmp/net-snmp-config.h>
#include <net-snmp/net-snmp-includes.h>
#include <net-snmp/agent/net-snmp-agent-includes.h>
#include <net-snmp/agent/table_container.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_OCTETS = 16, FLAG = 1, FIRST_COUNTER = 2, FIRST_GAUGE = 8, COLUMNS = 12, INDEXES = 2 };

/* As it is packed: native byte order, no padding. */
struct packed_row {
    uint64_t number;
    char name[NAME_OCTETS];
    uint64_t values[COLUMNS - 1];
};

struct table_row {
    netsnmp_index index; /* first, as the container wants it */
    oid index_oid[INDEXES];
    struct packed_row cells;
};

void init_vacm_conf(void);

static volatile sig_atomic_t ended;
static unsigned first_column;

static void end(int signal_number)
{
    (void) signal_number;
    ended = 1;
}

static void show(netsnmp_variable_list *varbind, const struct packed_row *cells, unsigned column)
{
    uint64_t value = column ? cells->values[column - 1] : 0;
    if (column == 0) {
        snmp_set_var_typed_value(varbind, ASN_OCTET_STR, cells->name, strnlen(cells->name, NAME_OCTETS));
    } else if (column < FIRST_COUNTER) {
        snmp_set_var_typed_integer(varbind, ASN_INTEGER, (long) value);
    } else if (column < FIRST_GAUGE) {
        struct counter64 counter = { .high = value >> 32, .low = value & 0xffffffff };
        snmp_set_var_typed_value(varbind, ASN_COUNTER64, &counter, sizeof counter);
    } else {
        snmp_set_var_typed_integer(varbind, ASN_GAUGE, (long) value);
    }
}

static int handle(netsnmp_mib_handler *handler, netsnmp_handler_registration *registration,
                  netsnmp_agent_request_info *info, netsnmp_request_info *requests)
{
    (void) handler;
    (void) registration;
    if (info->mode != MODE_GET)
        return SNMP_ERR_GENERR;
    for (netsnmp_request_info *request = requests; request; request = request->next) {
        if (request->processed)
            continue;
        const struct table_row *row = netsnmp_container_table_row_extract(request);
        const netsnmp_table_request_info *asked = netsnmp_extract_table_info(request);
        if (row == NULL || asked == NULL)
            netsnmp_set_request_error(info, request, SNMP_NOSUCHINSTANCE);
        else
            show(request->requestvb, &row->cells, asked->colnum - first_column);
    }
    return SNMP_ERR_NOERROR;
}

static void load(netsnmp_container *container, const char *path)
{
    FILE *file = fopen(path, "rb");
    struct packed_row packed;
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    while (fread(&packed, sizeof packed, 1, file) == 1) {
        struct table_row *row = calloc(1, sizeof *row);
        if (row == NULL)
            exit(1);
        row->cells = packed;
        row->index_oid[0] = 1;
        row->index_oid[1] = packed.number;
        row->index.oids = row->index_oid;
        row->index.len = INDEXES;
        CONTAINER_INSERT(container, row);
    }
    fclose(file);
}

static void serve(const char *table_name, const char *data)
{
    oid name[MAX_OID_LEN];
    size_t length = MAX_OID_LEN;
    if (!read_objid(table_name, name, &length)) {
        fprintf(stderr, "no object identifier: %s\n", table_name);
        exit(1);
    }
    netsnmp_container *container = netsnmp_container_find("bench:table_container");
    load(container, data);
    netsnmp_table_registration_info *table = SNMP_MALLOC_TYPEDEF(netsnmp_table_registration_info);
    netsnmp_table_helper_add_indexes(table, ASN_INTEGER, ASN_INTEGER, 0);
    table->min_column = first_column;
    table->max_column = first_column + COLUMNS - 1;
    netsnmp_handler_registration *registration =
        netsnmp_create_handler_registration("bench", handle, name, length, HANDLER_CAN_RONLY);
    if (netsnmp_container_table_register(registration, table, container, TABLE_CONTAINER_KEY_NETSNMP_INDEX)
        != MIB_REGISTERED_OK) {
        fprintf(stderr, "cannot register %s\n", table_name);
        exit(1);
    }
}

int main(int count, char **arguments)
{
    char address[64];
    if (count != 5) {
        fprintf(stderr, "container_agent PORT TABLE FIRST_COLUMN DATA\n");
        return 2;
    }
    first_column = (unsigned) atoi(arguments[3]);
    snprintf(address, sizeof address, "udp:127.0.0.1:%s", arguments[1]);
    snmp_enable_stderrlog();
    netsnmp_ds_set_boolean(NETSNMP_DS_APPLICATION_ID, NETSNMP_DS_AGENT_ROLE, 0);
    netsnmp_ds_set_string(NETSNMP_DS_APPLICATION_ID, NETSNMP_DS_AGENT_PORTS, address);
    init_agent("container_agent");
    /* A line of log for each manager that is new would cost more than its request. */
    netsnmp_ds_set_boolean(NETSNMP_DS_APPLICATION_ID, NETSNMP_DS_AGENT_DONT_LOG_TCPWRAPPERS_CONNECTS, 1);
    init_vacm_conf();
    serve(arguments[2], arguments[4]);
    init_snmp("container_agent");
    if (init_master_agent() != 0)
        return 1;
    signal(SIGTERM, end);
    while (!ended)
        agent_check_and_process(1);
    snmp_shutdown("container_agent");
    return 0;
}
