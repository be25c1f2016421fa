/* Reset and traps. The stack is filled with a pattern, from which tq_stack_bytes finds how much was used. */
    .section .start, "ax"
    .globl tq_start
tq_start:
    la sp, tq_stack_top
    la t0, trap
    csrw mtvec, t0
    la t0, tq_bss
    la t1, tq_bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  li t2, 0x5a5a5a5a
3:  bgeu t0, sp, 4f
    sw t2, 0(t0)
    addi t0, t0, 4
    j 3b
4:  call main
5:  j 5b

    .align 2
trap:
    la sp, tq_stack_top
    csrr a0, mcause
    csrr a1, mepc
    call tq_trap
6:  j 6b
