// Looks up bytes by the instruction vpermi2b, to see whether compiler and CPU have it: 64 of a table of 256 at a time.
//
// found[i] = byte places[i] of the 256 bytes of entries, for each byte i. Exact.
//
// grid: (ints / 16)
// Inline assembly of x86-64 with AVX-512 VBMI: feature vbmi.
__kernel void canary_vbmi(__global const int* places, __global const int* entries, __global int* found) {
  const int i = get_global_id(0);
  const int16 at = vload16(i, places);
  int16 low = at, high = at;
  __asm__("vpermi2b %2, %1, %0" : "+v"(low) : "v"(vload16(0, entries)), "v"(vload16(1, entries)));
  __asm__("vpermi2b %2, %1, %0" : "+v"(high) : "v"(vload16(2, entries)), "v"(vload16(3, entries)));
  __asm__("vpmovb2m %1, %%k1\n\tvmovdqu8 %2, %0 %{%%k1%}" : "+v"(low) : "v"(at), "v"(high) : "k1");
  vstore16(low, i, found);
}
