// Rounds to bfloat16 and adds products of pairs, by vcvtneps2bf16 and vdpbf16ps, to see whether compiler and CPU have them.
//
// acc[i] += 2 a[i] b[i] of the rounded numbers: both of a pair are the same. Products are exact, two additions rounded.
//
// grid: (floats / 16)
// Inline assembly of x86-64 with AVX-512 BF16: feature bf16.
__kernel void canary_bf16(__global const float* a, __global const float* b, __global float* acc) {
  const int i = get_global_id(0);
  float16 sum = vload16(i, acc);
  ushort16 left, right;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(left) : "v"(vload16(i, a)));
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(right) : "v"(vload16(i, b)));
  const uint16 l = convert_uint16(left) * 0x10001, r = convert_uint16(right) * 0x10001;
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(l), "v"(r));
  vstore16(sum, i, acc);
}
