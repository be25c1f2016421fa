/* The reader of compiled files, then a run of what it takes, on a device whose registers hold bytes of the input.
 *
 * Input: a byte of flags, a byte that says how many of the next bytes the registers give in turn, these, and the file. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tq.h"

enum { SEALED = 1, OTHER_DEVICE = 2, FAILING = 4, SMALL_MEMORY = 8 };

#define MEMORY 0x10000u
#define MOST_CYCLES 300u
#define ELEMENTS 64u

typedef struct device {
    const uint8_t *answers;
    size_t answer_bytes, at;
    uint32_t fingerprint, memory_bytes, looks;
    int flags;
    uint8_t *memory;
} device;

static uint32_t answer(device *d)
{
    uint8_t bytes[4] = {2, 0, 0, 0};
    for (uint32_t i = 0; d->answer_bytes > 0 && i < 4u; i++)
        bytes[i] = i < 2u ? d->answers[d->at++ % d->answer_bytes] : 0u;
    return get_word(bytes);
}

static tq_status reach(device *d, tq_space space, uint32_t address, uint32_t bytes)
{
    if (space == TQ_REGISTERS)
        expect(bytes == 4u && address % 4u == 0 && address <= 0xfcu);
    else
        expect(address >= MEMORY && address - MEMORY <= d->memory_bytes && bytes <= d->memory_bytes - (address - MEMORY));
    return (d->flags & FAILING) != 0 && answer(d) % 8u == 0 ? TQ_BUS_FAILED : TQ_OK;
}

static tq_status device_read(void *context, tq_space space, uint32_t address, void *data, uint32_t bytes)
{
    device *d = context;
    const tq_status status = reach(d, space, address, bytes);
    if (status != TQ_OK)
        return status;
    if (space == TQ_MEMORY) {
        memcpy(data, d->memory + (address - MEMORY), bytes);
        return TQ_OK;
    }
    /* Polls of a machine that never ends are bounded, whatever its registers contain. */
    expect(++d->looks <= 8u * (MOST_CYCLES + TQ_STUCK_POLLS));
    if ((d->flags & OTHER_DEVICE) == 0 && address == TQ_REG_MAGIC)
        put_word(data, TQ_MAGIC);
    else if ((d->flags & OTHER_DEVICE) == 0 && address == TQ_REG_FINGERPRINT)
        put_word(data, d->fingerprint);
    else
        put_word(data, answer(d));
    return TQ_OK;
}

static tq_status device_write(void *context, tq_space space, uint32_t address, const void *data, uint32_t bytes)
{
    device *d = context;
    const tq_status status = reach(d, space, address, bytes);
    if (status == TQ_OK && space == TQ_MEMORY)
        memcpy(d->memory + (address - MEMORY), data, bytes);
    return status;
}

static void use_edges(device *d, const tq_tensor *tensor)
{
    float values[ELEMENTS];
    uint8_t stored[2u * ELEMENTS] = {0};
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        const uint32_t bits = answer(d) << 16 | answer(d);
        memcpy(&values[i], &bits, sizeof bits);
    }
    (void)tq_quantize(tensor, values, stored, ELEMENTS);
    memcpy(stored, values, sizeof stored);
    (void)tq_dequantize(tensor, stored, values, ELEMENTS);
}

static void use_tensor(device *d, const tq_model *model, const tq_tensor *tensor, const uint8_t *end)
{
    uint8_t *data = calloc(tensor->bytes > 0 ? tensor->bytes : 1u, 1);
    expect(data != NULL && (const uint8_t *)tensor->name + strlen(tensor->name) < end);
    expect(tensor->address >= MEMORY && tensor->bytes <= d->memory_bytes);
    (void)tq_write(model, tensor, data, tensor->bytes);
    expect(tq_write(model, tensor, data, tensor->bytes + 1u) == TQ_BAD_ARGUMENT);
    (void)tq_read(model, tensor, data, tensor->bytes);
    use_edges(d, tensor);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tq_model model;
    device d = {0};
    tq_bus bus = {device_read, device_write, &d};
    size_t file_bytes;
    uint8_t *file;
    if (size < 2 || size - 2u < data[1])
        return 0;
    d.flags = data[0];
    d.answers = data + 2;
    d.answer_bytes = data[1];
    d.memory_bytes = (d.flags & SMALL_MEMORY) != 0 ? 1000u : 1u << 16;
    file_bytes = size - 2u - d.answer_bytes;
    file = copied(data + 2 + d.answer_bytes, file_bytes);
    if ((d.flags & SEALED) != 0)
        seal(file, file_bytes);
    if (file_bytes >= TQ_FILE_HEADER_BYTES)
        d.fingerprint = get_word(file + TQ_FILE_FINGERPRINT);
    d.memory = calloc(d.memory_bytes, 1);
    expect(d.memory != NULL);
    if (tq_open(&model, &bus, file, file_bytes, MEMORY, d.memory_bytes) == TQ_OK) {
        for (uint32_t i = 0; i < model.input_count + model.output_count; i++)
            use_tensor(&d, &model, &model.tensors[i], file + file_bytes);
        (void)tq_run(&model, MOST_CYCLES);
        (void)tq_reset_state(&model);
    }
    free(d.memory);
    free(file);
    return 0;
}
