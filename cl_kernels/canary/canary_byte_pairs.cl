// Adds products of bytes by the instruction vpmaddubsw, to see whether compiler and CPU have it: sums of 2 in 16 bits, then of
// two of these in each int.
//
// acc[i] += the sum over k = 0 .. 3 of byte k of a[i] (unsigned) times byte k of b[i] (signed), whose pairs must fit in 16
// bits. Exact.
//
// grid: (ints / 8)
// Inline assembly of x86-64 with AVX2: feature byte_pairs.
__kernel void canary_byte_pairs(__global const int* a, __global const int* b, __global int* acc) {
  const int i = get_global_id(0);
  int8 pairs, sums;
  __asm__("vpmaddubsw %2, %1, %0" : "=x"(pairs) : "x"(vload8(i, a)), "x"(vload8(i, b)));
  __asm__("vpaddw %1, %0, %0" : "+x"(pairs) : "x"((int8)(0)));
  __asm__("vpmaddwd %2, %1, %0" : "=x"(sums) : "x"(pairs), "x"((int8)(0x00010001)));
  vstore8(vload8(i, acc) + sums, i, acc);
}
