// Adds products of bytes by the instruction vpdpbusd, to see whether compiler and CPU have it: sums of 4 in each int.
//
// acc[i] += the sum over k = 0 .. 3 of byte k of a[i] (unsigned) times byte k of b[i] (signed). Exact.
//
// grid: (ints / 16)
// Inline assembly of x86-64 with AVX-512 VNNI: feature vnni.
__kernel void canary_vnni(__global const int* a, __global const int* b, __global int* acc) {
  const int i = get_global_id(0);
  int16 sum = vload16(i, acc);
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(vload16(i, a)), "v"(vload16(i, b)));
  vstore16(sum, i, acc);
}
