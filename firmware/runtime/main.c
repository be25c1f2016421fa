/* Run the model in flash on its inputs in flash, print outputs and cycles; again after each byte on the UART. */
#include "console.h"
#include "memory.h"
#include "tq.h"

#include <tq_soc.h>

/* More than any network takes: 21 seconds at 100 MHz. */
#define MOST_CYCLES 0x7fffffffu

int main(void);
void tq_trap(uint32_t cause, uint32_t address);

extern uint32_t tq_bss_end[], tq_stack_top[];

static const uint8_t *const image = (const uint8_t *)(TQ_SOC_FLASH + TQ_FLASH_OFFSET);
static tq_model model;

static uint32_t word(uint32_t offset)
{
    return *(const volatile uint32_t *)(image + offset);
}

static void put_value(const char *text, uint32_t value)
{
    put_text(text);
    put_number(value);
}

static uint32_t stack_bytes(void)
{
    const volatile uint32_t *lowest = tq_bss_end;
    while (*lowest == 0x5a5a5a5au)
        lowest++;
    return (uint32_t)((uintptr_t)tq_stack_top - (uintptr_t)lowest);
}

static void fail(const char *text)
{
    put_text("error: ");
    put_text(text);
    put_text("\n");
    for (;;) {
    }
}

void tq_trap(uint32_t cause, uint32_t address)
{
    put_text("trap ");
    put_hex(cause, 8);
    put_text(" at ");
    put_hex(address, 8);
    put_text("\n");
    fail("the program trapped");
}

static void expect(tq_status status)
{
    if (status == TQ_STOPPED) {
        put_value("stopped code ", model.error_code);
        put_value(" unit ", model.error_unit);
        put_value(" index ", model.error_index);
        put_text("\n");
    }
    if (status != TQ_OK)
        fail(tq_text(status));
}

static void check_image(void)
{
    uint32_t inputs;
    if (word(TQ_FLASH_MAGIC) != TQ_FLASH_MAGIC_VALUE)
        fail("no image in flash");
    if (word(TQ_FLASH_VERSION) != TQ_FLASH_VERSION_VALUE)
        fail("the image in flash has another version");
    inputs = word(TQ_FLASH_MODEL_OFFSET) - TQ_FLASH_CRC_FROM;
    if (inputs > 1u << 24 || tq_crc32(0, image + TQ_FLASH_CRC_FROM, inputs) != word(TQ_FLASH_CRC))
        fail("the image in flash is damaged");
}

static void open_model(const tq_bus *bus)
{
    const uint32_t began = cycles_now();
    uint32_t bytes = 0;
    expect(tq_open(&model, bus, image + word(TQ_FLASH_MODEL_OFFSET), word(TQ_FLASH_MODEL_BYTES),
                   TQ_SOC_MEMORY_ADDRESS, TQ_BOARD_MEMORY_BYTES));
    put_value("model ", word(TQ_FLASH_MODEL_BYTES));
    put_value(" bytes opened in ", cycles_now() - began);
    put_text(" cycles\n");
    for (uint32_t i = 0; i < model.input_count; i++)
        bytes += model.inputs[i].bytes;
    if (bytes != word(TQ_FLASH_SET_BYTES))
        fail("the inputs in flash are not those of the model");
}

static void put_output(uint32_t set, uint32_t number)
{
    const tq_tensor *output = &model.outputs[number];
    const uint8_t *at = (const uint8_t *)(TQ_SOC_MEMORY + (output->address - TQ_SOC_MEMORY_ADDRESS));
    put_value("set ", set);
    put_value(" output ", number);
    put_text(" ");
    put_bytes(at, output->bytes);
    put_text("\n");
}

static void run_set(uint32_t set)
{
    const uint8_t *input = image + word(TQ_FLASH_INPUTS_OFFSET) + set * word(TQ_FLASH_SET_BYTES);
    const uint32_t began = cycles_now();
    uint32_t cycles = 0;
    expect(tq_reset_state(&model));
    for (uint32_t i = 0; i < model.input_count; i++) {
        expect(tq_write(&model, &model.inputs[i], input, model.inputs[i].bytes));
        input += model.inputs[i].bytes;
    }
    give_memory();
    expect(tq_run(&model, MOST_CYCLES));
    take_memory();
    put_value("set ", set);
    put_value(" took ", cycles_now() - began);
    expect(tq_counter(&model, TQ_REG_COUNTER_CYCLES, &cycles));
    put_value(" cycles, accelerator ", cycles);
    put_text("\n");
    for (uint32_t i = 0; i < model.output_count; i++)
        put_output(set, i);
}

int main(void)
{
    tq_mmio mmio = {(volatile uint32_t *)TQ_SOC_ACCELERATOR, (volatile uint8_t *)TQ_SOC_MEMORY,
                    TQ_SOC_MEMORY_ADDRESS};
    const tq_bus bus = tq_mmio_bus(&mmio);
    put_text("tq runtime on " TQ_BOARD_NAME "\n");
    start_memory();
    if (check_memory() != TQ_BOARD_MEMORY_BYTES)
        fail("the memory does not hold what is written");
    put_value("memory ", TQ_BOARD_MEMORY_BYTES);
    put_value(" bytes ready after ", cycles_now());
    put_text(" cycles\n");
    check_image();
    open_model(&bus);
    for (;;) {
        for (uint32_t set = 0; set < word(TQ_FLASH_SETS); set++)
            run_set(set);
        put_value("stack ", stack_bytes());
        put_text(" bytes\ndone\n");
        while (get_byte() < 0) {
        }
    }
}
