#include "tq.h"

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint32_t tq_crc32(uint32_t crc, const void *data, size_t bytes)
{
    /* Four bits at a time: a small table, twice as fast as single bits. */
    static const uint32_t table[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
    const uint8_t *from = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= from[i];
        crc = crc >> 4 ^ table[crc & 15u];
        crc = crc >> 4 ^ table[crc & 15u];
    }
    return ~crc;
}

static tq_status read_register(const tq_bus *bus, uint32_t offset, uint32_t *value)
{
    uint8_t bytes[4] = {0};
    const tq_status status = bus->read(bus->context, TQ_REGISTERS, offset, bytes, 4);
    *value = word_at(bytes);
    return status;
}

static tq_status write_register(const tq_bus *bus, uint32_t offset, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
    return bus->write(bus->context, TQ_REGISTERS, offset, bytes, 4);
}

static tq_status stop(const tq_bus *bus)
{
    uint32_t value = TQ_STATUS_BUSY;
    tq_status status = write_register(bus, TQ_REG_CONTROL, 2);
    for (uint32_t polls = 0; status == TQ_OK && (value & TQ_STATUS_BUSY) != 0; polls++) {
        if (polls == TQ_STUCK_POLLS)
            return TQ_TIMED_OUT;
        status = read_register(bus, TQ_REG_STATUS, &value);
    }
    return status;
}

static uint32_t field(const uint8_t *file, uint32_t offset)
{
    return word_at(file + offset);
}

/* Whether `bytes` from `offset` on lie in a file or region of `size` bytes. */
static int lies_in(uint32_t offset, uint32_t bytes, uint32_t size)
{
    return offset <= size && bytes <= size - offset;
}

static uint32_t aligned(uint32_t bytes)
{
    return (bytes + (TQ_ALIGN - 1u)) & ~(TQ_ALIGN - 1u);
}

static tq_status check_file(const uint8_t *file, size_t file_bytes)
{
    uint32_t size;
    if (file_bytes < TQ_FILE_HEADER_BYTES || field(file, TQ_FILE_MAGIC) != TQ_FILE_MAGIC_VALUE)
        return TQ_NO_FILE;
    if (field(file, TQ_FILE_VERSION) != TQ_FILE_VERSION_VALUE)
        return TQ_OTHER_VERSION;
    size = field(file, TQ_FILE_FILE_BYTES);
    if (file_bytes < size)
        return TQ_TRUNCATED;
    if (size < TQ_FILE_HEADER_BYTES
        || tq_crc32(0, file + TQ_FILE_CRC_FROM, size - TQ_FILE_CRC_FROM) != field(file, TQ_FILE_CRC))
        return TQ_DAMAGED;
    if (!lies_in(field(file, TQ_FILE_IMAGE_OFFSET), field(file, TQ_FILE_IMAGE_BYTES), size)
        || !lies_in(field(file, TQ_FILE_STATE_OFFSET), field(file, TQ_FILE_STATE_BYTES), size)
        || !lies_in(field(file, TQ_FILE_NAMES_OFFSET), field(file, TQ_FILE_NAMES_BYTES), size)
        || !lies_in(field(file, TQ_FILE_COMMAND_OFFSET), field(file, TQ_FILE_COMMAND_BYTES),
                    field(file, TQ_FILE_IMAGE_BYTES))
        || field(file, TQ_FILE_PORT_BYTES) != TQ_PORT_RECORD_BYTES)
        return TQ_DAMAGED;
    if (field(file, TQ_FILE_INPUTS) > TQ_MOST_TENSORS
        || field(file, TQ_FILE_OUTPUTS) > TQ_MOST_TENSORS - field(file, TQ_FILE_INPUTS))
        return TQ_TOO_MANY_TENSORS;
    return lies_in(field(file, TQ_FILE_PORT_OFFSET),
                   TQ_PORT_RECORD_BYTES * (field(file, TQ_FILE_INPUTS) + field(file, TQ_FILE_OUTPUTS)), size)
               ? TQ_OK
               : TQ_DAMAGED;
}

static double double_at(const uint8_t *bytes)
{
    union {
        uint64_t bits;
        double value;
    } both;
    both.bits = (uint64_t)word_at(bytes) | (uint64_t)word_at(bytes + 4) << 32;
    return both.value;
}

static tq_status read_port(const tq_model *model, const uint8_t *record, tq_tensor *tensor)
{
    static const uint8_t element_bytes[] = TQ_DTYPE_BYTES;
    const uint8_t *file = model->file;
    const uint32_t sizes[3] = {field(file, TQ_FILE_IMAGE_BYTES), field(file, TQ_FILE_ARENA_BYTES),
                               field(file, TQ_FILE_STATE_BYTES)};
    const uint32_t offset = field(record, TQ_PORT_REGION_OFFSET), region = record[TQ_PORT_REGION];
    const uint32_t name = field(record, TQ_PORT_NAME_OFFSET), name_bytes = field(record, TQ_PORT_NAME_BYTES);
    const uint32_t names_bytes = field(file, TQ_FILE_NAMES_BYTES);
    const uint8_t *names = file + field(file, TQ_FILE_NAMES_OFFSET);
    uint64_t bytes;

    if (record[TQ_PORT_DTYPE] >= sizeof element_bytes || record[TQ_PORT_EDGE] > TQ_EDGE_DEQUANTIZE
        || record[TQ_PORT_RANK] > TQ_MOST_RANK || region > TQ_REGION_STATE || !lies_in(name, name_bytes, names_bytes)
        || name + name_bytes == names_bytes || names[name + name_bytes] != 0)
        return TQ_DAMAGED;
    tensor->name = (const char *)(names + name);
    tensor->scale = double_at(record + TQ_PORT_SCALE);
    tensor->zero_point = (int32_t)field(record, TQ_PORT_ZERO_POINT);
    tensor->dtype = record[TQ_PORT_DTYPE];
    tensor->edge = record[TQ_PORT_EDGE];
    tensor->rank = record[TQ_PORT_RANK];
    tensor->bytes = field(record, TQ_PORT_SIZE_BYTES);
    bytes = element_bytes[tensor->dtype];
    for (uint32_t axis = 0; axis < TQ_MOST_RANK; axis++) {
        tensor->shape[axis] = axis < tensor->rank ? field(record, TQ_PORT_SHAPE + 4u * axis) : 1u;
        if (bytes > UINT32_MAX)
            return TQ_DAMAGED;
        bytes *= tensor->shape[axis];
    }
    if (bytes != tensor->bytes || !lies_in(offset, tensor->bytes, sizes[region]))
        return TQ_DAMAGED;
    tensor->address = model->bases[region] + offset;
    return TQ_OK;
}

/* Lay the regions out one after the other. */
static tq_status place(tq_model *model, uint32_t memory, uint32_t memory_bytes)
{
    const uint32_t sizes[3] = {field(model->file, TQ_FILE_IMAGE_BYTES), field(model->file, TQ_FILE_ARENA_BYTES),
                               field(model->file, TQ_FILE_STATE_BYTES)};
    uint32_t used = 0;
    for (uint32_t region = 0; region < 3; region++) {
        if (sizes[region] > memory_bytes - used || aligned(sizes[region]) < sizes[region])
            return TQ_NO_MEMORY;
        model->bases[region] = memory + used;
        /* The last region needs no padding. */
        used = aligned(sizes[region]) > memory_bytes - used ? memory_bytes : used + aligned(sizes[region]);
    }
    return TQ_OK;
}

static tq_status check_device(const tq_bus *bus, const uint8_t *file)
{
    uint32_t magic, fingerprint;
    tq_status status = read_register(bus, TQ_REG_MAGIC, &magic);
    if (status == TQ_OK && magic != TQ_MAGIC)
        return TQ_NO_DEVICE;
    if (status == TQ_OK)
        status = read_register(bus, TQ_REG_FINGERPRINT, &fingerprint);
    if (status == TQ_OK && fingerprint != field(file, TQ_FILE_FINGERPRINT))
        return TQ_OTHER_CONFIGURATION;
    return status;
}

static tq_status write_state(const tq_model *model, const tq_bus *bus)
{
    const uint32_t bytes = field(model->file, TQ_FILE_STATE_BYTES);
    if (bytes == 0)
        return TQ_OK;
    return bus->write(bus->context, TQ_MEMORY, model->bases[TQ_REGION_STATE],
                      model->file + field(model->file, TQ_FILE_STATE_OFFSET), bytes);
}

tq_status tq_open(tq_model *model, const tq_bus *bus, const void *file, size_t file_bytes, uint32_t memory,
                  uint32_t memory_bytes)
{
    tq_status status;
    const uint8_t *record;
    if (model == NULL)
        return TQ_BAD_ARGUMENT;
    /* A model that does not open has no bus. */
    model->bus = NULL;
    /* Memory may end at the last address. */
    if (bus == NULL || file == NULL || memory % TQ_ALIGN != 0
        || (memory_bytes > 0 && memory + (memory_bytes - 1u) < memory))
        return TQ_BAD_ARGUMENT;
    model->file = file;
    model->error_code = model->error_unit = model->error_index = 0;
    model->input_count = model->output_count = 0;
    status = check_file(file, file_bytes);
    if (status == TQ_OK)
        status = check_device(bus, file);
    if (status == TQ_OK)
        status = place(model, memory, memory_bytes);
    if (status != TQ_OK)
        return status;

    model->input_count = field(file, TQ_FILE_INPUTS);
    model->output_count = field(file, TQ_FILE_OUTPUTS);
    model->inputs = model->tensors;
    model->outputs = model->tensors + model->input_count;
    record = model->file + field(file, TQ_FILE_PORT_OFFSET);
    for (uint32_t i = 0; status == TQ_OK && i < model->input_count + model->output_count; i++)
        status = read_port(model, record + i * TQ_PORT_RECORD_BYTES, &model->tensors[i]);
    if (status == TQ_OK)
        status = stop(bus);
    if (status == TQ_OK)
        status = bus->write(bus->context, TQ_MEMORY, model->bases[0], model->file + field(file, TQ_FILE_IMAGE_OFFSET),
                            field(file, TQ_FILE_IMAGE_BYTES));
    if (status == TQ_OK)
        status = write_state(model, bus);
    if (status == TQ_OK)
        model->bus = bus;
    return status;
}

static int is_open(const tq_model *model)
{
    return model != NULL && model->bus != NULL;
}

tq_status tq_reset_state(const tq_model *model)
{
    return is_open(model) ? write_state(model, model->bus) : TQ_BAD_ARGUMENT;
}

tq_status tq_write(const tq_model *model, const tq_tensor *tensor, const void *data, uint32_t bytes)
{
    if (!is_open(model) || tensor == NULL || data == NULL || bytes != tensor->bytes)
        return TQ_BAD_ARGUMENT;
    return model->bus->write(model->bus->context, TQ_MEMORY, tensor->address, data, bytes);
}

tq_status tq_read(const tq_model *model, const tq_tensor *tensor, void *data, uint32_t bytes)
{
    if (!is_open(model) || tensor == NULL || data == NULL || bytes != tensor->bytes)
        return TQ_BAD_ARGUMENT;
    return model->bus->read(model->bus->context, TQ_MEMORY, tensor->address, data, bytes);
}

tq_status tq_counter(const tq_model *model, uint32_t offset, uint32_t *value)
{
    if (!is_open(model) || value == NULL || offset % 4u != 0)
        return TQ_BAD_ARGUMENT;
    return read_register(model->bus, offset, value);
}

static tq_status wait_for_end(const tq_bus *bus, uint32_t most_cycles, uint32_t *end)
{
    uint32_t cycles = 0, still = 0;
    uint64_t passed = 0; /* the counter wraps at 2^32 cycles */
    /* A poll takes at least a cycle if the clock runs, so this also ends for a device with a false counter. */
    for (uint64_t looks = 0;; looks++) {
        uint32_t now;
        tq_status status = read_register(bus, TQ_REG_STATUS, end);
        if (status != TQ_OK || (*end & TQ_STATUS_BUSY) == 0)
            return status;
        status = read_register(bus, TQ_REG_COUNTER_CYCLES, &now);
        if (status != TQ_OK)
            return status;
        still = now == cycles ? still + 1u : 0u;
        passed += (uint32_t)(now - cycles);
        cycles = now;
        if (passed > most_cycles || still > TQ_STUCK_POLLS || looks > (uint64_t)most_cycles + TQ_STUCK_POLLS) {
            status = stop(bus);
            return status == TQ_OK ? TQ_TIMED_OUT : status;
        }
    }
}

tq_status tq_run(tq_model *model, uint32_t most_cycles)
{
    tq_status status;
    uint32_t end = 0;
    if (!is_open(model))
        return TQ_BAD_ARGUMENT;
    status = write_register(model->bus, TQ_REG_COMMAND_OFFSET, field(model->file, TQ_FILE_COMMAND_OFFSET));
    if (status == TQ_OK)
        status = write_register(model->bus, TQ_REG_COMMAND_BYTES, field(model->file, TQ_FILE_COMMAND_BYTES));
    if (status == TQ_OK)
        status = write_register(model->bus, TQ_REG_WATCHDOG, TQ_WATCHDOG_CYCLES);
    for (uint32_t region = 0; status == TQ_OK && region < 3; region++)
        status = write_register(model->bus, TQ_REG_BASE0 + 4u * region, model->bases[region]);
    if (status == TQ_OK)
        status = write_register(model->bus, TQ_REG_CONTROL, 1);
    if (status == TQ_OK)
        status = wait_for_end(model->bus, most_cycles, &end);
    if (status != TQ_OK || end == TQ_STATUS_DONE)
        return status;
    status = read_register(model->bus, TQ_REG_ERROR_CODE, &model->error_code);
    if (status == TQ_OK)
        status = read_register(model->bus, TQ_REG_ERROR_UNIT, &model->error_unit);
    if (status == TQ_OK)
        status = read_register(model->bus, TQ_REG_ERROR_INDEX, &model->error_index);
    return status == TQ_OK ? TQ_STOPPED : status;
}

const char *tq_text(tq_status status)
{
    switch (status) {
    case TQ_OK: return "done";
    case TQ_BAD_ARGUMENT: return "bad argument";
    case TQ_BUS_FAILED: return "the bus failed";
    case TQ_NO_DEVICE: return "no accelerator at the registers";
    case TQ_NO_FILE: return "not a compiled model";
    case TQ_OTHER_VERSION: return "compiled model of another version: compile it again";
    case TQ_TRUNCATED: return "the compiled model is truncated";
    case TQ_DAMAGED: return "the compiled model is damaged";
    case TQ_OTHER_CONFIGURATION: return "compiled for another configuration of the accelerator";
    case TQ_NO_MEMORY: return "the model is larger than the memory";
    case TQ_TOO_MANY_TENSORS: return "more tensors than TQ_MOST_TENSORS";
    case TQ_STOPPED: return "the accelerator stopped with an error";
    case TQ_TIMED_OUT: return "the accelerator did not end in time";
    case TQ_NO_ANSWER: return "the board does not answer";
    case TQ_REFUSED: return "the board refuses a request";
    case TQ_BOARD_RESET: return "the board was reset: open link and model again";
    case TQ_NOT_FINITE: return "a value is not finite or too large";
    }
    return "unknown status";
}
