// Adds products of bytes by the instruction vpdpbusd, to see whether compiler and CPU have it: sums of 4 in each int.
//
// acc[i] += the sum over k = 0 .. 3 of byte k of a[i] (unsigned) times byte k of b[i] (signed). Exact.
//
// grid: (ints / 16)
// Inline assembly of x86-64 with AVX-512 VNNI, or where SIMD is 8 with AVX-VNNI: feature vnni.
__kernel void canary_vnni(__global const int* a, __global const int* b, __global int* acc) {
#if SIMD == 8
  for (int i = 2 * get_global_id(0), end = i + 2; i < end; i++) {
    int8 sum = vload8(i, acc);
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(vload8(i, a)), "x"(vload8(i, b)));
    vstore8(sum, i, acc);
  }
#else
  const int i = get_global_id(0);
  int16 sum = vload16(i, acc);
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(vload16(i, a)), "v"(vload16(i, b)));
  vstore16(sum, i, acc);
#endif
}
