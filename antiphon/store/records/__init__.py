"""Operations on records beside responses, and the removal of responses, written once for both databases."""
