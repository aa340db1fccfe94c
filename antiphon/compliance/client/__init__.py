"""Client mode: a server that plays every legal and every odd stream, and judges whoever connects."""
